// A command is one file, x_command.cc, which defines add_x_command; the list below declares it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
}

namespace podium {

// What the commands share.
struct CommandLine {
  std::vector<std::string> words;    // as typed, for the record of a run
  std::function<ExitCode()> action;  // of the command that was named, set when it has been parsed
  // What was typed for a path of this machine, which commands get in place of an address.
  std::map<std::string, std::string> addresses = {};
  std::string typed(const std::string& path) const {
    const auto found = addresses.find(path);
    return found == addresses.end() ? path : found->second;
  }
};

// Adds a command whose help opens with its examples. `run` is called once all is parsed.
CLI::App* add_command(CLI::App& parent, CommandLine& line, const std::string& name,
                      const std::string& summary, const std::vector<std::string>& examples,
                      std::function<ExitCode()> run);

// A check for an option: accepts only whole numbers from `least` to `most`, which an int has to
// state: what it cannot hold is refused in these words.
std::function<std::string(const std::string&)> at_least(
    std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());
// The same for a number from `least` to `most`, which may have decimals.
std::function<std::string(const std::string&)> between(double least, double most);

// RECIPE [OVERRIDE ...], which several commands take.
struct RecipeArguments {
  std::string recipe;
  std::vector<std::string> overrides;
};
void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments);
// Which checkpoint of a run: checkpoint_of() of train/run/run_folder.h.
void add_step_flag(CLI::App& command, std::string& step);

#define PODIUM_COMMAND_LIST(X) \
  X(train)                     \
  X(eval)                      \
  X(predict)                   \
  X(generate)                  \
  X(translate)                 \
  X(export)                    \
  X(show)                      \
  X(plan)                      \
  X(inspect)                   \
  X(diff)                      \
  X(verify)                    \
  X(seal)                      \
  X(compare)                   \
  X(report)                    \
  X(band)                      \
  X(recipes)                   \
  X(prices)                    \
  X(devices)                   \
  X(data)                      \
  X(bench)                     \
  X(plugin)                    \
  X(completion)                \
  X(man)

#define PODIUM_DECLARE_COMMAND(name) void add_##name##_command(CLI::App& app, CommandLine& line);
PODIUM_COMMAND_LIST(PODIUM_DECLARE_COMMAND)
#undef PODIUM_DECLARE_COMMAND

}  // namespace podium
