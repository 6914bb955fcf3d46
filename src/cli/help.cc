#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::vector<std::string> examples) : examples_(std::move(examples)) {
    column_width(28);
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = "Examples:\n";
    for (const std::string& example : examples_) text += "  " + example + "\n";
    return text + "\n" + CLI::Formatter::make_help(app, std::move(name), mode);
  }
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  std::vector<std::string> examples_;
};

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
