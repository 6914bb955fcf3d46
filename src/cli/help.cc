#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/words.h"

namespace podium {
namespace {

// "TEXT:{train,test}" gives {"train", "test"}.
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::istringstream list(type.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  if (option.nonpositional()) {
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  } else {
    text.names.push_back(option.get_name(true));
  }
  const std::string type = option.get_type_name();
  if (option.get_items_expected_max() > 0) text.value = type.substr(0, type.find(':'));
  text.choices = choices_of(type);
  text.description = option.get_description();
  text.required = option.get_required();
  text.many = option.get_items_expected_max() > 1;
  return text;
}

constexpr std::size_t kColumn = 28;  // where descriptions begin

// The left column, then the description, on a line of its own after a left column that is too wide.
std::string help_line(std::string left, const std::string& description) {
  left = "  " + left;
  if (left.size() >= kColumn)
    left += "\n" + std::string(kColumn, ' ');
  else
    left.resize(kColumn, ' ');
  return left + description + "\n";
}

// "--split TEXT:{train,test}=train", or "RUN TEXT REQUIRED" of a positional argument.
std::string help_entry(const CLI::Option& option) {
  const OptionText text = option_text(option);
  std::string left = join_words(text.names, ",");
  if (option.get_items_expected_max() > 0) {
    left += " " + option.get_type_name();
    if (!option.get_default_str().empty()) left += "=" + option.get_default_str();
    if (text.many) left += " ...";
  }
  if (text.required) left += " REQUIRED";
  return help_line(left, text.description);
}

// Writes the whole help, since releases of CLI11 differ in theirs.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::vector<std::string> examples) : examples_(std::move(examples)) {}
  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    std::string usage, positionals, options, commands;
    for (const CLI::Option* option : app->get_options()) {
      if (option->nonpositional()) {
        options += help_entry(*option);
        continue;
      }
      positionals += help_entry(*option);
      const std::string name =
          option->get_name(true) + (option->get_items_expected_max() > 1 ? "..." : "");
      usage += option->get_required() ? " " + name : " [" + name + "]";
    }
    for (const CLI::App* below : app->get_subcommands([](const CLI::App*) { return true; }))
      commands += help_line(below->get_name(), below->get_description());

    std::string text = "Examples:\n";
    for (const std::string& example : examples_) text += "  " + example + "\n";
    text += "\n" + app->get_description() + "\nUsage: " + full_name(*app) + " [OPTIONS]" + usage;
    text += commands.empty() ? "\n" : " SUBCOMMAND\n";
    if (!positionals.empty()) text += "\nPositionals:\n" + positionals;
    text += "\nOptions:\n" + options;
    if (!commands.empty()) text += "\nSubcommands:\n" + commands;
    if (!app->get_footer().empty()) text += "\n" + app->get_footer() + "\n";
    return text;
  }
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  std::vector<std::string> examples_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_formatter(std::vector<std::string> examples) {
  return std::make_shared<HelpFormatter>(std::move(examples));
}

CommandText command_text(const CLI::App& command) {
  CommandText text;
  text.name = full_name(command);
  text.summary = command.get_description();
  const auto formatter = std::dynamic_pointer_cast<HelpFormatter>(command.get_formatter());
  PODIUM_CHECK(formatter != nullptr, text.name, ": has no help formatter");
  text.examples = formatter->examples();
  for (const CLI::Option* option : command.get_options()) {
    (option->nonpositional() ? text.options : text.positionals).push_back(option_text(*option));
  }
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; })) {
    text.commands.push_back(command_text(*below));
  }
  return text;
}

std::string full_name(const CLI::App& command) {
  std::string name = command.get_name();
  for (const CLI::App* app = command.get_parent(); app != nullptr; app = app->get_parent()) {
    name = app->get_name() + " " + name;
  }
  return name;
}

}  // namespace podium
