#include "tests/house/documents.h"

#include <gtest/gtest.h>

namespace podium::house {
namespace {

using Lines = std::vector<std::string>;

const std::set<std::string> kPaths = {"README.md",      "docs",       "docs/a.md",
                                      "docs/b.md",      "docs/notes", "src/compile/fuse.cc",
                                      "scripts/test.sh"};

Lines broken(const std::string& text) {
  return broken_references({{"docs/a.md", text}, {"docs/b.md", "# B\n\n## Its part: `two`, 2\n"}},
                           kPaths);
}

TEST(HouseDocuments, every_link_and_file_that_the_documents_name_exists) {
  // ctest starts in the root of the tree.
  const std::vector<Document> documents = read_documents(".");
  ASSERT_GT(documents.size(), 10U);
  std::string text;
  for (const std::string& line : broken_references(documents, tree_paths("."))) text += line + "\n";
  EXPECT_EQ(text, "");
}

TEST(HouseDocuments, a_link_to_a_missing_file_is_reported_with_its_line) {
  EXPECT_EQ(broken("x\n[b](b.md), [c](c.md)\n"),
            Lines{"docs/a.md:2: the link c.md leads to no file"});
  EXPECT_EQ(broken("![p](../b.svg)\n"), Lines{"docs/a.md:1: the link ../b.svg leads to no file"});
  EXPECT_EQ(broken("[r](../README.md) [n](notes) [n](notes/) [w](https://example.org/x.md)\n"),
            Lines{});
}

TEST(HouseDocuments, a_link_to_a_missing_heading_is_reported) {
  EXPECT_EQ(broken("[b](b.md#its-part-two-2)\n"), Lines{});
  EXPECT_EQ(broken("# Own\n[a](#own) [b](b.md#its-part)\n"),
            Lines{"docs/a.md:2: the link b.md#its-part leads to no heading"});
}

TEST(HouseDocuments, a_source_file_that_is_gone_is_reported) {
  EXPECT_EQ(broken("`compile/fuse.cc` and `scripts/test.sh -R x`\n"), Lines{});
  EXPECT_EQ(broken("`fuse.h`; `scripts/gone.sh --all`\n"),
            (Lines{"docs/a.md:1: there is no file fuse.h",
                   "docs/a.md:1: there is no file scripts/gone.sh"}));
}

TEST(HouseDocuments, placeholders_fences_and_files_of_a_run_are_left_alone) {
  EXPECT_EQ(broken("`src/NAME.cc`, `x_test.cc`, `hashes.jsonl`, `*_test.cc`\n"), Lines{});
  EXPECT_EQ(broken("```\n[b](c.md) `fuse.h`\n```\n"), Lines{});
}

TEST(HouseDocuments, commands_are_found_in_fences_and_spans) {
  const Document document = {"docs/a.md",
                             "Type `podium eval RUN --json; podium diff A B`, podium said.\n"
                             "```\nbuild/podium train mnist \\\n  --out a   # podium comments\n"
                             "scripts/test.sh --long '--a b' && podium devices\n```\n"};
  const std::vector<NamedCommand> found = named_commands(document, false);
  Lines lines;
  for (const NamedCommand& command : found) {
    std::string line = command.where + " " + command.program;
    for (const std::string& word : command.words) line += " " + word;
    lines.push_back(line);
  }
  EXPECT_EQ(lines,
            (Lines{"docs/a.md:1 podium eval RUN --json", "docs/a.md:1 podium diff A B",
                   "docs/a.md:3 podium train mnist --out a",
                   "docs/a.md:5 scripts/test.sh --long '--a b'", "docs/a.md:5 podium devices"}));
}

}  // namespace
}  // namespace podium::house
