// podium man: the manual page podium(1) as roff, made from the help texts and from the table of
// recipe keys.
#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>

#include "base/words.h"
#include "cli/command.h"
#include "cli/help.h"
#include "podium_version.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

// Text that roff prints as it is. Hyphens become "\-", so that flags can be copied from the page.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// Lines of at most 80 characters.
std::string folded(const std::string& text) {
  std::istringstream words(text);
  std::string out, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > 80) {
      out += line + "\n";
      line.clear();
    }
    // A line that begins with one of these would be a request.
    if (line.empty() && (word[0] == '.' || word[0] == '\'')) line = "\\&";
    line += (line.empty() || line == "\\&" ? "" : " ") + word;
  }
  return out + line + "\n";
}

// The same, with what stands in backquotes in bold.
std::string paragraph(const std::string& text) {
  std::string out;
  bool bold = false;
  for (const char c : escaped(text)) {
    if (c == '`') {
      out += bold ? "\\fR" : "\\fB";
      bold = !bold;
    } else {
      out += c;
    }
  }
  return folded(out + (bold ? "\\fR" : ""));
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

// An argument of a macro.
std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

std::string section(const std::string& title) { return ".SH " + in_quotes(title) + "\n"; }

std::string entry(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + paragraph(text);
}

std::string option_entry(const OptionText& option, bool is_positional) {
  std::string tag;
  for (const std::string& name : option.names) {
    tag += (tag.empty() ? "" : ", ") + (is_positional ? italic(name) : bold(name));
  }
  if (option.many) tag += "...";
  if (!option.choices.empty()) {
    tag += " {" + escaped(join_words(option.choices, ",")) + "}";
  } else if (!option.value.empty() && !is_positional) {
    tag += " " + italic(option.value);
  }
  return entry(tag, option.description + (option.required && !is_positional ? " (required)" : ""));
}

std::string command_section(const CommandText& command) {
  if (!command.commands.empty()) {
    std::string text;
    for (const CommandText& below : command.commands) text += command_section(below);
    return text;
  }
  std::string usage = command.name;
  for (const OptionText& option : command.options) {
    if (option.required) usage += " " + option.names.back() + " " + option.value;
  }
  usage += " [OPTIONS]";
  for (const OptionText& option : command.positionals) {
    const std::string name = option.names[0] + (option.many ? "..." : "");
    usage += option.required ? " " + name : " [" + name + "]";
  }
  std::string text = ".SS " + in_quotes(escaped(usage)) + "\n" + paragraph(command.summary + ".");
  for (const OptionText& option : command.positionals) text += option_entry(option, true);
  for (const OptionText& option : command.options) {
    if (option.names.back() != "--help") text += option_entry(option, false);
  }
  text += ".PP\nExamples:\n.PP\n.RS 4\n.nf\n";
  for (const std::string& example : command.examples) text += escaped(example) + "\n";
  return text + ".fi\n.RE\n";
}

std::string recipe_key_section() {
  std::string text =
      section("RECIPE KEYS") +
      paragraph(
          "A recipe is a TOML file with these keys; on the command line they are given as "
          "`key=value`, such as `optimizer.learning_rate=0.02`.");
  const Recipe defaults;
  for (const RecipeKey& key : recipe_keys()) {
    const std::string range = to_string(key.range);
    std::string meaning = cat(key.meaning, ". Type: ", type_text(key));
    if (!range.empty()) meaning += ", " + range;
    if (!key.choices.empty()) meaning += ": " + join_words(key.choices);
    if (!key.unit.empty()) meaning += " (" + key.unit + ")";
    meaning += key.required ? ". Required." : ". Default: " + value_text(key, defaults) + ".";
    text += entry(bold(key.path()), meaning);
  }
  return text;
}

std::string manual_page(const CommandText& podium) {
  std::string text = ".\\\" Printed by `podium man`.\n";
  text +=
      cat(".TH PODIUM 1 ", in_quotes(PODIUM_DATE), " ", in_quotes("podium " PODIUM_VERSION), "\n");
  text += ".nh\n.ad l\n";  // names of keys are copied from the page: no hyphens within them
  text += section("NAME") +
          "podium \\- train neural networks, with equal bits on any number of workers\n";
  text += section("SYNOPSIS") + bold("podium") + " " + italic("COMMAND") + " [" +
          italic("OPTIONS") + "] " + italic("ARGUMENTS") + "\n.br\n" + bold("podium") + " " +
          bold("--help") + " | " + bold("--version") + "\n";
  text += section("DESCRIPTION");
  text += paragraph(
      "Podium trains neural networks from one binary. A recipe fixes what is computed; workers, "
      "threads and devices change the speed and the price of a run, never its result.");
  text += ".PP\n" + paragraph(
                        "Results go to standard output, progress and messages to standard error. "
                        "The same command "
                        "resumes a run that was stopped or killed, with the same bits.");
  text += section("COMMANDS");
  text += paragraph("Each command also prints this text with `--help`.");
  for (const CommandText& command : podium.commands) text += command_section(command);
  text += recipe_key_section();
  text += section("EXIT STATUS");
  text += entry("0", "Success.");
  text += entry("1", "`diff`: the runs differ. `band`: the run lies outside the band.");
  text += entry("2", "The command line or the recipe is wrong.");
  text +=
      entry("3", "Data files, checkpoints or folders are missing, damaged or cannot be written.");
  text += entry("4", "The run does not fit in memory.");
  text += entry("5", "The run diverged: a loss or a parameter is not finite.");
  text += entry("6", "Another process of the run ended, was late or could not be reached.");
  text += entry("70", "A bug in podium.");
  text += entry("75", "Stopped on request; the run is saved.");
  text += section("ENVIRONMENT");
  text += entry(bold("PODIUM_RECIPES"), "A folder that is searched first for recipes.");
  text += entry(bold("PODIUM_DATA"), "A folder with the files of datasets.");
  text += entry(bold("PODIUM_DOWNLOAD_BASE"),
                "The address that `podium data fetch` downloads from, instead of the dataset's own "
                "addresses.");
  text += entry(
      bold("PODIUM_VECTOR_TARGET"),
      "The vector instructions to use; `podium devices` lists them. No result depends on it.");
  text += section("FILES");
  text += entry(italic("runs/RECIPE-seedN/"),
                "A run: recipe, environment, metrics, hashes of the parameters, checkpoints, "
                "TensorBoard events.");
  text += entry(italic("recipes/"),
                "Recipes. podium looks for them in recipes/ of the current folder, beside the "
                "program, and in share/podium/recipes of the installation.");
  text += entry(italic("~/.cache/podium/"),
                "Downloaded datasets, indexes of folders of data, compiled programs of PJRT "
                "plugins.");
  return text;
}

}  // namespace

void add_man_command(CLI::App& app, CommandLine& line) {
  add_command(app, line, "man", "Prints the manual page",
              {"podium man | man -l -", "podium man >podium.1"}, [&app] {
                std::cout << manual_page(command_text(app));
                return ExitCode::kDone;
              });
}

}  // namespace podium
