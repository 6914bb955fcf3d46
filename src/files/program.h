// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace podium {

struct ProgramOptions {
  std::string input;       // a file that is its standard input; empty: this program's
  bool keep_text = false;  // what it prints becomes ProgramEnd::text; otherwise it goes to stderr
};

struct ProgramEnd {
  int code = 0;      // of its exit; 128 + signal where one ended it
  std::string text;  // its standard output and errors, as far as they were kept
};

// `words`: the program, looked up in PATH, and its arguments; no shell reads them. Ctrl-C goes to
// both, and this program waits for the other. Throws UserError(kUsage), which ends in `remedy`, if
// it cannot be started.
ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options,
                       const std::string& remedy);

}  // namespace podium
