#include "cli/command_line.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <limits>
#include <new>
#include <system_error>

#include "base/stop.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/talk.h"
#include "parallel/launcher.h"
#include "podium_version.h"
#include "store/local_copy.h"
#include "train/plugin/plugin.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

int code(ExitCode exit_code) { return static_cast<int>(exit_code); }

std::vector<std::string> long_flags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// The innermost command that was named.
const CLI::App* named_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

// Words that belong to no command: said before anything else is complained about.
std::string wrong_word(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> names = command_names(*command);
    if (names.empty() || word.starts_with('-')) return "";
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      return cat("there is no command \"", full_name(*command), " ", word, "\"; the nearest is \"",
                 full_name(*command), " ", nearest_word(word, names),
                 "\"; known: ", join_words(names));
    }
    command = command->get_subcommand(word);
  }
  return "";
}

int usage_error(const CLI::App& app, const std::string& text) {
  const std::string name = full_name(*named_command(app));
  complain(cat(text, "\n`", name, " --help` shows its usage"));
  return code(ExitCode::kUsage);
}

int parse_failed(CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // help or version, on stdout
  std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const CLI::App* command = named_command(app);
    const std::vector<std::string> extras = app.remaining(true);
    const std::string first = extras.empty() ? "" : extras.front();
    text = cat("unknown argument \"", first, "\"");
    if (first.starts_with('-')) {
      const std::string flag = first.substr(0, first.find('=')),
                        nearest = nearest_word(flag, long_flags(*command));
      const std::string key =
          flag.starts_with("--") ? key_of_usual_name(flag.substr(2)) : std::string();
      text += !key.empty()      ? cat("; it is a key of the recipe, given as ", key, "=VALUE")
              : nearest == flag ? cat("; put flags after `", full_name(*command), "`")
                                : cat("; the nearest flag is ", nearest);
    }
  }
  return usage_error(app, text);
}

// Runs `action` and says what went wrong, with the exit code that belongs to it.
int guarded(const std::function<int()>& action) {
  try {
    return action();
  } catch (const UserError& error) {
    complain(error.what());
    return code(error.code());
  } catch (const Stopped&) {  // by commands that prepare data
    complain("stopped on request; the same command again goes on or starts anew");
    return code(ExitCode::kStopped);
  } catch (const std::bad_alloc&) {
    complain(
        "out of memory; give the process more, or state its limit with `podium train "
        "--memory-limit`, which suggests a setting that fits");
    return code(ExitCode::kMemory);
  } catch (const InternalError& error) {
    complain(cat("internal error, a bug in podium and not in your input: ", error.what()));
  } catch (const std::exception& error) {
    complain(cat("internal error, a bug in podium and not in your input: ", error.what()));
  }
  return code(ExitCode::kInternal);
}

// What is opened must not take the number of a stream that was closed: results would be written
// into a file of the run. A stream that was closed becomes one that cannot be written to.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0)
      (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

// Why results cannot be written.
std::string output_problem(int error) {
  switch (error) {
    case EBADF: return "standard output is closed: the result was computed but could not be shown";
    case EPIPE: return "standard output: the reader closed the pipe; the rest was not written";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return cat("standard output: cannot write: ", std::strerror(error), "; free some space");
    default: return cat("standard output: cannot write: ", std::strerror(error));
  }
}

// Whether it is a pipe whose reader has gone (`podium recipes | head -1`), having read what it
// wanted.
bool nobody_reads(int descriptor) {
  pollfd state = {descriptor, POLLOUT, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

// Commands that meet no model, no data and no operation.
constexpr std::string_view kWithoutPlugins[] = {"completion", "devices", "diff", "man", "plugin"};

void add_plugin_flag(CLI::App& app, std::vector<std::string>& files) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (std::ranges::find(kWithoutPlugins, command->get_name()) != std::end(kWithoutPlugins))
      continue;
    if (!command->get_subcommands([](const CLI::App*) { return true; }).empty()) {
      add_plugin_flag(*command, files);
      continue;
    }
    command
        ->add_option("--plugin", files,
                     "A shared object that adds models, datasets or operations; may be repeated")
        ->type_name("FILE")
        ->allow_extra_args(false);
  }
}

// With copies on this machine in place of runs and files in a store, as arguments of commands that
// read them. What follows a flag is an address to write to, or the flag's own affair.
std::vector<std::string> with_local_paths(CommandLine& line) {
  std::vector<std::string> local;
  for (const std::string& word : line.words) {
    const bool after_flag = !local.empty() && local.back().starts_with("--");
    const bool read = !after_flag || local.back() == "--run";
    local.push_back(read ? local_path(word) : word);
    if (local.back() != word) line.addresses[local.back()] = word;
  }
  return local;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Trains neural networks, with the same bits on any number of workers.", "podium");
  CommandLine line;
  line.words.assign(argv, argv + argc);
  app.formatter(make_help_formatter({"podium train mnist", "podium eval runs/mnist-seed0"}));
  app.set_help_flag("-h,--help", "Show this help and exit");
  app.set_version_flag("--version", cat("podium ", PODIUM_VERSION, " (", PODIUM_COMMIT, ")"),
                       "Show the version and exit");
#define PODIUM_ADD_COMMAND(name) add_##name##_command(app, line);
  PODIUM_COMMAND_LIST(PODIUM_ADD_COMMAND)
#undef PODIUM_ADD_COMMAND
  std::vector<std::string> plugins;
  add_plugin_flag(app, plugins);
  app.require_subcommand(1);

  const std::vector<std::string> words(line.words.begin() + 1, line.words.end());
  if (words.empty()) {
    std::cerr << app.help();
    return code(ExitCode::kUsage);
  }
  if (const std::string wrong = wrong_word(app, words); !wrong.empty()) {
    return usage_error(app, wrong);
  }
  std::vector<std::string> local = with_local_paths(line);
  std::vector<char*> pointers;
  for (std::string& word : local) pointers.push_back(word.data());
  try {
    app.parse(argc, pointers.data());
  } catch (const CLI::ParseError& error) {
    return parse_failed(app, error);
  }
  for (const CLI::Option* option : named_command(app)->get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        return usage_error(
            app, cat(option->get_name(), ": the value is empty; give a value, or omit the flag"));
  for (const std::string& plugin : plugins) load_plugin(plugin);
  const ExitCode result = line.action();
  // What was asked for is done once it has been written.
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0;
  const int error = errno;
  PODIUM_REQUIRE(written || nobody_reads(STDOUT_FILENO), ExitCode::kData, output_problem(error));
  return code(result);
}

}  // namespace

// Under mpirun each of N processes would do the same work, and write the same files.
static void require_one_process(const std::string& command) {
  const Launcher launcher = find_launcher();
  PODIUM_REQUIRE(launcher.ranks <= 1, ExitCode::kUsage, "podium ", command,
                 " runs as one process, but the launcher starts ", launcher.ranks, " (",
                 launcher.variable,
                 "); only podium train and podium bench exchange run as several ranks");
}

CLI::App* add_command(CLI::App& parent, CommandLine& line, const std::string& name,
                      const std::string& summary, const std::vector<std::string>& examples,
                      std::function<ExitCode()> run) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command->formatter(make_help_formatter(examples));
  command->set_help_flag("-h,--help", "Show this help and exit");
  if (run) {
    command->final_callback([&line, name, run = std::move(run)] {
      if (name != "train" && name != "exchange") require_one_process(name);
      line.action = run;
    });
  } else {
    command->require_subcommand(1);
  }
  return command;
}

std::function<std::string(const std::string&)> at_least(std::int64_t least, std::int64_t most) {
  return [least, most](const std::string& text) -> std::string {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && rest == end && number >= least && number <= most) return "";
    return cat("\"", text, "\" is not a whole number from ", least, " to ", most);
  };
}

std::function<std::string(const std::string&)> between(double least, double most) {
  return [least, most](const std::string& text) -> std::string {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    // False for what is not a number.
    if (error == std::errc() && rest == end && number >= least && number <= most) return "";
    return cat("\"", text, "\" is not a number from ", least, " to ", most);
  };
}

void add_step_flag(CLI::App& command, std::string& step) {
  command.add_option(
      "--step", step,
      "The checkpoint of this step, or \"best\" (run.keep_best); by default the last");
}

void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments) {
  command
      .add_option("RECIPE", arguments.recipe,
                  "A name from `podium recipes`, or the path of a TOML file")
      ->required();
  // Newer versions of CLI11 refuse a positional argument whose name holds a "=".
  command.add_option(
      "OVERRIDE", arguments.overrides,
      "key=value: overrides a key of the recipe, such as optimizer.learning_rate=0.02");
}

int run_command_line(int argc, char** argv) {
  // A pipe that nobody reads any more, and a file that may not grow, are errors of a write: they
  // must not end a training unsaved.
  occupy_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  install_talk();
  return guarded([&] { return parse_and_run(argc, argv); });
}

}  // namespace podium
