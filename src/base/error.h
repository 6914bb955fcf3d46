// Errors and checks.
//
// Two roots of exceptions. UserError: the recipe, the data, a flag or the machine is at fault; its
// text names the place, the rule broken and what to try, and it carries the process exit code.
// InternalError: our bug; it carries file and line. PODIUM_CHECK states an invariant of ours,
// PODIUM_REQUIRE one that a user can break.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace podium {

// Exit codes of the command line.
enum class ExitCode : int {
  kDone = 0,
  kDifferent = 1,  // `diff`: the two runs differ; `band`: the run lies outside
  kUsage = 2,      // command line or recipe
  kData = 3,       // data files, checkpoints, folders
  kMemory = 4,     // does not fit: before step 1 where that can be known
  kDiverged = 5,   // a loss, or what a checkpoint would hold, is not finite
  kInternal = 70,  // our bug
  kStopped = 75,   // stopped on request, saved
};

// Joins its arguments as a stream would print them.
template <typename... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// The recipe, the data, a flag or the machine is at fault. what() is for the user, and says what to
// do.
class UserError : public std::runtime_error {
 public:
  // `code` is what the command line exits with.
  explicit UserError(const std::string& what, ExitCode code = ExitCode::kUsage)
      : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// A defect of Podium. what() begins with the file and the line of the check that failed.
class InternalError : public std::logic_error {
 public:
  // `file` and `line` are those of the check.
  InternalError(const char* file, int line, const std::string& what)
      : std::logic_error(cat(file, ":", line, ": ", what)) {}
};

}  // namespace podium

#define PODIUM_CHECK(condition, ...)                                                              \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      throw ::podium::InternalError(__FILE__, __LINE__,                                           \
                                    ::podium::cat("" #condition " " __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                             \
  } while (false)

#define PODIUM_REQUIRE(condition, code, ...)                                       \
  do {                                                                             \
    if (!(condition)) throw ::podium::UserError(::podium::cat(__VA_ARGS__), code); \
  } while (false)
