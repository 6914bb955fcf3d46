// Shell completion and the manual page: what the program prints is given to real shells and tools.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class Completion : public CommandLine {
 protected:
  // Standard output and error of a command of the shell, in the test's folder with podium in $PATH.
  std::string shell(const std::string& command, int expected_code = 0) const {
    const std::filesystem::path program = PODIUM_PROGRAM;
    write("command.sh", "cd '" + path("").string() + "' && PATH='" +
                            program.parent_path().string() + "':$PATH\n" + command + "\n");
    std::FILE* pipe = popen(("bash '" + path("command.sh").string() + "' 2>&1").c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer;
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
      text.append(buffer.data(), n);
    const int status = pclose(pipe);
    EXPECT_EQ(WEXITSTATUS(status), expected_code) << command << "\n" << text;
    return text;
  }
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) all.push_back(line);
    return all;
  }
  static bool has_program(const std::string& name) {
    return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
  }
};

class BashCompletion : public Completion {
 protected:
  // What the function answers when the cursor is at the end of `line`. Bash gives it words split at
  // blanks and at "=", which is a word of its own.
  std::vector<std::string> offered(const std::string& line) const {
    std::string words;
    for (const char c : line) words += c == '=' ? " = " : std::string(1, c);
    return lines(shell("source <(podium completion bash)\nCOMP_LINE='" + line +
                       "'\nCOMP_POINT=${#COMP_LINE} COMP_WORDS=(" + words + ")\n" +
                       (line.ends_with(' ') ? "COMP_WORDS+=('')\n" : "") +
                       "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_podium\n"
                       "printf '%s\\n' \"${COMPREPLY[@]}\""));
  }
};

using Words = std::vector<std::string>;

TEST_F(BashCompletion, commands_and_their_commands_are_offered) {
  EXPECT_EQ(offered("podium tr"), (Words{"train", "translate"}));
  EXPECT_EQ(offered("podium data "),
            (Words{"list", "fetch", "verify", "index", "show", "tokenize"}));
}

TEST_F(BashCompletion, flags_of_the_command_are_offered) {
  EXPECT_EQ(offered("podium train mnist --work"), Words{"--workers"});
  EXPECT_EQ(offered("podium recipes --work"), Words{});
}

TEST_F(BashCompletion, recipes_are_those_that_the_program_lists) {
  EXPECT_EQ(offered("podium train gly"), Words{"glyphs"});
  EXPECT_EQ(offered("podium train --workers 2 gly"), Words{"glyphs"});
  EXPECT_EQ(offered("podium train --workers=2 gly"), Words{"glyphs"});
  std::filesystem::create_directory(path("recipes"));
  std::filesystem::copy_file(PODIUM_SOURCE "/recipes/glyphs.toml",
                             path("recipes/glyphs-of-mine.toml"));
  EXPECT_EQ(offered("podium train gly"), (Words{"glyphs", "glyphs-of-mine"}));
}

TEST_F(BashCompletion, keys_of_a_recipe_and_their_values_are_offered) {
  EXPECT_EQ(offered("podium train mnist optimizer.na"), Words{"optimizer.name="});
  EXPECT_EQ(offered("podium train mnist data=gl"), Words{"glyphs"});
  EXPECT_EQ(offered("podium train mnist schedule.name=li"), Words{"linear"});
  EXPECT_EQ(offered("podium train mnist seed=3 optimizer.na"), Words{"optimizer.name="});
  EXPECT_EQ(offered("podium recipes optimizer.na"), Words{});
}

TEST_F(BashCompletion, values_of_flags_and_datasets_are_offered) {
  EXPECT_EQ(offered("podium train mnist --backend "), (Words{"cpu", "reference"}));
  EXPECT_EQ(offered("podium train mnist --backend=re"), Words{"reference"});
  EXPECT_EQ(offered("podium data show --split te"), Words{"test"});
  EXPECT_EQ(offered("podium data fetch mn"), Words{"mnist"});
  EXPECT_EQ(offered("podium data fetch mnist mn"), Words{});
  EXPECT_EQ(offered("podium train mnist --workers "), Words{});
}

TEST_F(Completion, zsh_offers_commands_flags_recipes_and_keys) {
  if (!has_program("zsh")) GTEST_SKIP() << "zsh is not installed";
  shell("podium completion zsh >_podium && zsh -n _podium");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"podium tr", "train translate"},
      {"podium data ", "list fetch verify index show tokenize"},
      {"podium train mnist --work", "--workers"},
      {"podium train gly", "glyphs"},
      {"podium train mnist optimizer.na", "optimizer.name"},
      {"podium train mnist data=gl", "glyphs"},
      {"podium train mnist --backend=re", "reference"},
      {"podium data fetch mn", "mnist"},
  };
  std::string typed, expected;
  for (const auto& [line, words] : cases) {
    typed += " '" + line + "'";
    expected += words + "\n";
  }
  EXPECT_EQ(shell("zsh '" PODIUM_SOURCE "/tests/cli/complete.zsh' \"$PWD\"" + typed), expected);
}

TEST_F(Completion, an_unknown_shell_is_refused) {
  expect_refusal(podium({"completion", "fish"}), 2, {"fish", "bash"});
}

using Manual = Completion;

TEST_F(Manual, the_page_has_no_warning_of_the_formatters) {
  shell("podium man >podium.1");
  bool looked = false;
  if (has_program("groff")) {
    EXPECT_EQ(shell("groff -man -Tutf8 -ww -z podium.1"), "");
    looked = true;
  }
  if (has_program("mandoc")) {
    // Outside a checkout the page has no date.
    EXPECT_EQ(shell("mandoc -Tlint podium.1 | grep -v 'missing date' || true"), "");
    looked = true;
  }
  if (!looked) GTEST_SKIP() << "neither groff nor mandoc is installed";
}

TEST_F(Manual, the_page_has_every_command_flag_key_and_variable) {
  const std::string page = podium({"man"}).out;
  for (const char* part : {".SH \"EXIT STATUS\"", "podium data fetch", "\\-\\-memory\\-limit",
                           "optimizer.learning_rate", "PODIUM_DATA", "PODIUM_RECIPES",
                           "PODIUM_DOWNLOAD_BASE", "PODIUM_VECTOR_TARGET"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  // What a person copies from the page is what the program understands.
  EXPECT_EQ(page.find(" --"), std::string::npos);
}

}  // namespace
}  // namespace podium::test
