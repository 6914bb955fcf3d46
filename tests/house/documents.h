// What the documents refer to: links, files of the tree, and commands to type. Tests use it to find
// references that no longer hold. Not a Markdown parser: it knows code fences, code spans, headings
// and inline links.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace podium::house {

struct Document {
  std::string path, text;  // the path from the root of the tree
};

// README.md and every *.md below docs/.
std::vector<Document> read_documents(const std::filesystem::path& root);
// The sources below src/, whose comments and messages name commands, too.
std::vector<Document> read_code(const std::filesystem::path& root);
// Every file and folder of the tree, as paths from its root, without hidden folders, build folders
// and runs.
std::set<std::string> tree_paths(const std::filesystem::path& root);

// One line for each relative link whose file or heading does not exist, and for each source file,
// script or recipe that a code span names and the tree does not contain. A file may be named by the
// end of its path ("compile/fuse.cc"). Names with a word in capitals ("NAME.cc") are placeholders,
// as are x.cc and x_test.cc.
std::vector<std::string> broken_references(const std::vector<Document>& documents,
                                           const std::set<std::string>& paths);

// A command to type, as words: those after `podium`, or a script and its arguments.
struct NamedCommand {
  std::string where;               // "docs/recipes.md:12"
  std::string program;             // "podium" or "scripts/test.sh"
  std::vector<std::string> words;  // its arguments
};

// The commands of a document's code fences and code spans. Of code (`is_code`), only those in
// backquotes.
std::vector<NamedCommand> named_commands(const Document& document, bool is_code);

}  // namespace podium::house
