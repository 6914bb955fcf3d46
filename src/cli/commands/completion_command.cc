// podium completion: scripts for bash and zsh that complete podium's commands, flags and recipe
// keys. They are made from the help texts and from the table of recipe keys. For the names of
// recipes and datasets they ask the program.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <variant>

#include "backend/device.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/help.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

// What completes a value: one of the words below, or "=" and a list of words.
//   files, folders, nothing
//   recipes   names of recipes, or files
//   datasets  names of datasets
//   examples  names of datasets or of recipes: what `podium data show` takes
//   keys      key=value overrides of a recipe
std::string value_kind(const std::string& command, const OptionText& option) {
  const std::string& name = option.names.back();
  if (!option.choices.empty()) return "=" + join_words(option.choices, " ");
  if (name == "--backend") return "=" + join_words(backend_names(), " ");
  if (command == "podium data show" && name == "DATASET") return "examples";
  static const std::map<std::string, std::string> kinds = {
      {"RECIPE", "recipes"},     {"DATASET", "datasets"}, {"OVERRIDE", "keys"},
      {"RUN", "folders"},        {"RUN_A", "folders"},    {"RUN_B", "folders"},
      {"--data-dir", "folders"}, {"--title", "nothing"},  {"--memory-limit", "nothing"},
      {"--plugin", "files"},     {"FILE", "files"},
  };
  if (const auto kind = kinds.find(name); kind != kinds.end()) return kind->second;
  return option.value == "TEXT" ? "files" : "nothing";
}

// The words that a recipe key can have; none where it may be anything.
std::vector<std::string> key_values(const RecipeKey& key) {
  if (std::holds_alternative<FieldOf<bool>>(key.field)) return {"true", "false"};
  std::vector<std::string> values = key.words();
  for (const std::int64_t number : key.numbers) values.push_back(std::to_string(number));
  return values;
}

std::string key_names() {
  std::vector<std::string> names;
  for (const RecipeKey& key : recipe_keys()) names.push_back(key.path());
  return join_words(names, " ");
}

// Lines of a `case` of the shell, one for each key of a few values.
std::string key_value_cases() {
  std::string text;
  for (const RecipeKey& key : recipe_keys()) {
    const std::vector<std::string> values = key_values(key);
    if (values.empty()) continue;
    text += cat("    ", key.path(), ") values='", join_words(values, " "), "' ;;\n");
  }
  return text;
}

template <typename Visit>
void for_each_command(const CommandText& command, const Visit& visit) {
  visit(command);
  for (const CommandText& below : command.commands) for_each_command(below, visit);
}

std::string last_word(const std::string& text) { return text.substr(text.rfind(' ') + 1); }

std::string command_words(const CommandText& command) {
  std::vector<std::string> words;
  for (const CommandText& below : command.commands) words.push_back(last_word(below.name));
  return join_words(words, " ");
}

// In single quotes of the shell.
std::string shell_quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

constexpr const char* kBashHead = R"(# Completion for bash, printed by `podium completion bash`.
)";

// The function _podium_command, which is written before this, sets what the command $1 takes: its
// commands, its flags, and in pairs "NAME KIND;" its flags with a value and its positional
// arguments in their order. "..." marks an argument that takes all the rest.
constexpr const char* kBashBody = R"sh(
_podium_key_values() {
  values=''
  case $1 in
@KEY_VALUES@  esac
}

_podium_kind_of() {  # the kind of $2 in the pairs $1
  local pair
  kind=''
  while IFS= read -r -d ';' pair; do
    [[ ${pair%% *} == "$2" ]] && kind=${pair#* }
  done <<<"$1"
}

# Completes $cur as a value of kind $1. $before is what bash has split off at an "=".
_podium_value() {
  local values='' names='' name
  case $1 in
    =*) values=${1#=} ;;
    files) ;;
    folders) compopt +o default +o bashdefault -o dirnames 2>/dev/null ;;
    recipes | datasets | examples)
      [[ $cur == */* || $cur == .* ]] && return
      [[ $1 == datasets ]] || names=$("$program" recipes 2>/dev/null)
      [[ $1 == recipes ]] || names+=$'\n'$("$program" data list 2>/dev/null)
      while read -r name _; do
        [[ $name == RECIPE || $name == DATASET ]] || values+=" $name"
      done <<<"$names"
      [[ $1 == recipes ]] || compopt +o default +o bashdefault 2>/dev/null ;;
    keys)
      compopt +o default +o bashdefault 2>/dev/null
      if [[ $cur == *=* ]]; then
        _podium_key_values "${cur%%=*}"
        before=${cur%%=*}=
        cur=${cur#*=}
      else
        values=$_podium_keys
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -W "$values" -S = -- "$cur")
        return
      fi ;;
    *) compopt +o default +o bashdefault 2>/dev/null ;;
  esac
  [[ -z $values ]] || mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
  # Where "=" does not split words, the whole word is replaced.
  [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$before}")
}

_podium() {
  local program=${COMP_WORDS[0]} command=podium word cur before='' value='' places=0 i
  local commands flags valued positionals kind
  local -a words=()
  COMPREPLY=()
  # Bash splits words at "=": join them again.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]} > 0)) && [[ $word == '=' || ${words[-1]} == *= ]] &&
      ! [[ $i -eq $COMP_CWORD && -z $word && ${COMP_LINE:0:COMP_POINT} == *[[:blank:]] ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  ((${#words[@]} > 0)) || words=("")
  cur=${words[-1]}
  unset 'words[-1]'
  _podium_command "$command"
  for word in "${words[@]}"; do
    if [[ -n $value ]]; then
      value=''
    elif [[ $word == -* ]]; then
      _podium_kind_of "$valued" "$word"
      [[ -z $kind ]] || value=$word
    elif [[ " $commands " == *" $word "* ]]; then
      command+=" $word"
      _podium_command "$command"
    else
      places=$((places + 1))
    fi
  done

  if [[ -n $value ]]; then
    _podium_kind_of "$valued" "$value"
    _podium_value "$kind"
  elif [[ $cur == --*=* ]]; then
    _podium_kind_of "$valued" "${cur%%=*}"
    before=${cur%%=*}=
    cur=${cur#*=}
    _podium_value "${kind:-nothing}"
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  else
    local pair last='... nothing'
    i=0
    while IFS= read -r -d ';' pair; do
      last=$pair
      ((i++ < places)) || break
    done <<<"$positionals"
    # Beyond the last argument nothing follows, unless it takes all the rest.
    ((i > places)) || [[ $last == ...* ]] || last='... nothing'
    _podium_value "${last#* }"
  fi
}
complete -o bashdefault -o default -F _podium podium
)sh";

std::string bash_script(const CommandText& podium) {
  std::string text = kBashHead;
  text +=
      "_podium_keys='" + key_names() + "'\n\n_podium_command() {  # what the command $1 takes\n";
  text += "  commands='' flags='' valued='' positionals=''\n  case $1 in\n";
  for_each_command(podium, [&](const CommandText& command) {
    std::vector<std::string> flags;
    std::string valued, positionals;
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) {
        flags.push_back(name);
        if (!option.value.empty()) valued += name + " " + value_kind(command.name, option) + ";";
      }
    }
    for (const OptionText& option : command.positionals) {
      positionals += (option.many ? "..." : "") + option.names[0] + " " +
                     value_kind(command.name, option) + ";";
    }
    text +=
        cat("    '", command.name, "')\n      commands='", command_words(command),
            "'\n      flags='", join_words(flags, " "), "'\n      valued=", shell_quoted(valued),
            "\n      positionals=", shell_quoted(positionals), " ;;\n");
  });
  return text + "  esac\n}\n" + replaced(kBashBody, "@KEY_VALUES@", key_value_cases());
}

constexpr const char* kZshHead = R"zsh(#compdef podium
# Completion for zsh, printed by `podium completion zsh`.
# Name the file _podium, in a folder of $fpath.

__podium_key_values() {
  local values=''
  case $1 in
@KEY_VALUES@  esac
  compadd -- ${=values}
}

__podium_keys() {
  if compset -P 1 '*='; then
    __podium_key_values ${IPREFIX%=}
  else
    compadd -S = -- @KEYS@
  fi
}

# The first words of what podium prints, without the heading.
__podium_first_words() {
  local -a lines
  lines=(${(f)"$(_call_program names $__podium_program "$@" 2>/dev/null)"})
  compadd -- ${${lines[2,-1]}%% *}
}
__podium_recipes() {
  local result=1
  __podium_first_words recipes && result=0
  _files -g '*.toml' && result=0
  return result
}
__podium_datasets() { __podium_first_words data list }
__podium_examples() { __podium_first_words data list; __podium_first_words recipes }
)zsh";

// Within an argument of _arguments.
std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) {
    text = replaced(text, special, std::string("\\") + special);
  }
  return text;
}

std::string zsh_action(const std::string& kind) {
  if (kind.starts_with('=')) return "(" + kind.substr(1) + ")";
  static const std::map<std::string, std::string> actions = {
      {"files", "_files"},
      {"folders", "_files -/"},
      {"recipes", "__podium_recipes"},
      {"datasets", "__podium_datasets"},
      {"examples", "__podium_examples"},
      {"keys", "__podium_keys"},
  };
  const auto action = actions.find(kind);
  return action == actions.end() ? " " : action->second;
}

std::string function_name(const std::string& command) { return "_" + replaced(command, " ", "_"); }

std::string zsh_function(const CommandText& command) {
  std::string text = cat("\n", function_name(command.name), "() {\n");
  std::vector<std::string> specs;
  for (const OptionText& option : command.options) {
    const std::string value =
        option.value.empty()
            ? ""
            : cat(":", option.value, ":", zsh_action(value_kind(command.name, option)));
    for (const std::string& name : option.names) {
      specs.push_back(
          shell_quoted(cat("(", join_words(option.names, " "), ")", name, value.empty() ? "" : "=",
                           "[", zsh_text(option.description), "]", value)));
    }
  }
  for (const OptionText& option : command.positionals) {
    specs.push_back(shell_quoted(cat(option.many ? "*" : "", ":", zsh_text(option.names[0]), ":",
                                     zsh_action(value_kind(command.name, option)))));
  }
  if (command.commands.empty()) {
    return text + "  _arguments -s " + join_words(specs, " \\\n    ") + "\n}\n";
  }
  specs.insert(specs.end(), {"'1:command:->command'", "'*::argument:->arguments'"});
  text += "  local curcontext=$curcontext state state_descr line\n  typeset -A opt_args\n";
  if (command.name == "podium") text += "  local __podium_program=$words[1]\n";
  text += "  _arguments -C -s " + join_words(specs, " \\\n    ") + "\n  case $state in\n";
  text += "    command)\n      local -a commands=(\n";
  for (const CommandText& below : command.commands) {
    text +=
        cat("        ", shell_quoted(last_word(below.name) + ":" + zsh_text(below.summary)), "\n");
  }
  text += "      )\n      _describe command commands ;;\n    arguments)\n      case $words[1] in\n";
  for (const CommandText& below : command.commands) {
    text += cat("        ", last_word(below.name), ") ", function_name(below.name), " ;;\n");
  }
  return text + "      esac ;;\n  esac\n}\n";
}

std::string zsh_script(const CommandText& podium) {
  std::string text =
      replaced(replaced(kZshHead, "@KEY_VALUES@", key_value_cases()), "@KEYS@", key_names());
  std::vector<std::string> functions;
  for_each_command(podium, [&](const CommandText& c) { functions.push_back(zsh_function(c)); });
  for (const std::string& function : functions) text += function;
  return text + R"zsh(
# As a file of $fpath this is the body of _podium itself; sourced, it only defines the functions.
if [[ $funcstack[1] == _podium ]]; then
  _podium "$@"
else
  compdef _podium podium
fi
)zsh";
}

struct CompletionArguments {
  std::string shell;
};

}  // namespace

void add_completion_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<CompletionArguments>();
  CLI::App* command = add_command(
      app, line, "completion", "Prints a script that completes podium's command line in a shell",
      {"source <(podium completion bash)              # for this shell",
       "podium completion zsh >~/.zfunc/_podium       # a folder of $fpath"},
      [&app, arguments] {
        const CommandText podium = command_text(app);
        std::cout << (arguments->shell == "bash" ? bash_script(podium) : zsh_script(podium));
        return ExitCode::kDone;
      });
  command->add_option("SHELL", arguments->shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
}

}  // namespace podium
