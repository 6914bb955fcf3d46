// The help of a command as data. The help text, the manual page and shell completion are generated
// from it, so they always agree.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
class FormatterBase;
}  // namespace CLI

namespace podium {

// A flag, an option with a value, or a positional argument.
struct OptionText {
  std::vector<std::string> names;    // "-h", "--help"; of a positional argument its one name
  std::string value;                 // "TEXT", "INT"; empty: a flag
  std::vector<std::string> choices;  // of the value; empty: any
  std::string description;
  bool required = false;
  bool many = false;  // takes several values
};

struct CommandText {
  std::string name;  // "podium data fetch"
  std::string summary;
  std::vector<std::string> examples;
  std::vector<OptionText> options, positionals;
  std::vector<CommandText> commands;
};

// The formatter of a command's help, which begins with examples, because most readers look for
// them.
std::shared_ptr<CLI::FormatterBase> make_help_formatter(std::vector<std::string> examples);

// Of a command whose formatter is one of the above, and of all commands below it.
CommandText command_text(const CLI::App& command);

// The name of a command with those above it: "podium data fetch".
std::string full_name(const CLI::App& command);

}  // namespace podium
