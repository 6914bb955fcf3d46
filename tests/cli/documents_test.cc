// The commands that documents, comments and messages name are those that the program has.
#include "tests/house/documents.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

// Whether the text has this flag as a word.
bool has_flag(const std::string& text, const std::string& flag) {
  for (std::size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if (end == text.size() || !is_word_character(text[end])) return true;
  }
  return false;
}

// "--steps" of "--steps=3" or "[--steps"; empty for what is not a long flag.
std::string flag_of(std::string word) {
  while (word.starts_with('[') || word.starts_with('(')) word.erase(0, 1);
  if (!word.starts_with("--")) return "";
  const auto end =
      std::find_if(word.begin(), word.end(), [](char c) { return !is_word_character(c); });
  word.erase(end, word.end());
  return word == "--" ? "" : word;
}

bool is_command_name(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::islower(static_cast<unsigned char>(c)) != 0 || c == '-';
  });
}

class NamedCommands : public CommandLine {
 protected:
  // The help of a command; empty if there is no such command.
  const std::string& help(const std::vector<std::string>& words) {
    const auto [entry, is_new] = helps_.try_emplace(words);
    if (is_new) {
      std::vector<std::string> with_help = words;
      with_help.emplace_back("--help");
      const Outcome outcome = podium(with_help);
      if (outcome.code == 0) entry->second = outcome.out;
    }
    return entry->second;
  }

  // What does not hold of this command; empty if all does.
  std::string problem(const house::NamedCommand& command) {
    std::string known;
    if (command.program == "podium") {
      std::vector<std::string> path;
      std::string own = help(path);
      for (const std::string& word : command.words) {
        if (own.find("\nSubcommands:\n") == std::string::npos || !is_command_name(word)) break;
        path.push_back(word);
        own = help(path);
        if (own.empty()) return "there is no command `" + word + "`";
      }
      known = own + help({});
    } else {
      std::ifstream script(command.program);  // ctest starts in the root of the tree
      known.assign(std::istreambuf_iterator<char>(script), {});
      if (known.empty()) return "there is no script " + command.program;
    }
    for (const std::string& word : command.words) {
      const std::string flag = flag_of(word);
      if (!flag.empty() && !has_flag(known, flag)) return command.program + " has no flag " + flag;
    }
    return "";
  }

  std::string problems(const std::vector<house::Document>& documents, bool is_code) {
    std::string all;
    for (const house::Document& document : documents) {
      for (const house::NamedCommand& command : house::named_commands(document, is_code)) {
        const std::string found = problem(command);
        if (!found.empty()) all += command.where + ": " + found + "\n";
      }
    }
    return all;
  }

 private:
  std::map<std::vector<std::string>, std::string> helps_;
};

TEST_F(NamedCommands, every_command_and_flag_in_the_documents_exists) {
  EXPECT_EQ(problems(house::read_documents("."), false), "");
}

TEST_F(NamedCommands, every_command_and_flag_in_comments_and_messages_exists) {
  EXPECT_EQ(problems(house::read_code("."), true), "");
}

TEST_F(NamedCommands, what_does_not_exist_is_reported) {
  const auto found = [this](const std::string& line) {
    return problems({{"a.md", "```\n" + line + "\n```\n"}}, false);
  };
  EXPECT_EQ(found("podium train mnist --workers 2 --fresh"), "");
  EXPECT_EQ(found("podium data show mnist --first=3"), "");
  EXPECT_EQ(found("podium retrain mnist"), "a.md:2: there is no command `retrain`\n");
  EXPECT_EQ(found("podium data remove mnist"), "a.md:2: there is no command `remove`\n");
  EXPECT_EQ(found("podium train mnist --work 2"), "a.md:2: podium has no flag --work\n");
  EXPECT_EQ(found("scripts/test.sh --longest"), "a.md:2: scripts/test.sh has no flag --longest\n");
  EXPECT_EQ(found("scripts/gone.sh"), "a.md:2: there is no script scripts/gone.sh\n");
}

}  // namespace
}  // namespace podium::test
