// Errors and checks.
//
// Two base exceptions. UserError: the recipe, the data, a flag or the machine is at fault;
// its text names the place, the broken rule and the remedy, and it carries the process exit code.
// InternalError: a bug in Podium; it carries file and line. PODIUM_CHECK checks an invariant of the
// code, PODIUM_REQUIRE a condition that a user can violate.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace podium {

// Exit codes of the command line.
enum class ExitCode : int {
  kDone = 0,
  kDifferent = 1,  // `diff`: the runs differ; `band`: the run is outside
  kUsage = 2,      // command line or recipe
  kData = 3,       // data files, checkpoints, folders
  kMemory = 4,     // out of memory; detected before step 1 where possible
  kDiverged = 5,   // a loss, or a value of a checkpoint, is not finite
  kRankLost = 6,   // another rank ended, was late or could not be reached
  kFault = 7,      // an audit found that a device did not compute the same twice
  kInternal = 70,  // a bug in Podium
  kStopped = 75,   // stopped on request, saved
};

// Joins its arguments, formatted as a stream prints them.
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

// A bug in Podium. what() begins with the file and the line of the check that failed.
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
