#include "tests/house/documents.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string_view>

namespace podium::house {
namespace {

// Examples of the documents, which are not in the tree.
constexpr std::string_view kInvented[] = {"src/ops/clip.cc"};

constexpr std::string_view kCheckedEndings[] = {".cc", ".h", ".sh", ".toml", ".cmake"};
constexpr std::string_view kCheckedFolders[] = {"src/",   "scripts/", "docs/",    "tests/",
                                                "bench/", "recipes/", "examples/"};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Document> read_below(const std::filesystem::path& root, const std::string& folder,
                                 const std::function<bool(const std::string&)>& wanted) {
  std::vector<Document> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string path = entry.path().lexically_relative(root).generic_string();
    if (entry.is_regular_file() && wanted(path)) found.push_back({path, read_file(entry.path())});
  }
  std::ranges::sort(found, {}, &Document::path);
  return found;
}

bool is_fence(std::string_view line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first != std::string_view::npos && line.substr(first).starts_with("```");
}

// Calls visit(line number, line, whether it lies in a code fence). A line that ends in a backslash
// goes on in the next.
void for_each_line(const std::string& text,
                   const std::function<void(int, const std::string&, bool)>& visit) {
  std::istringstream lines(text);
  std::string line, next;
  bool fenced = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (is_fence(line)) {
      fenced = !fenced;
      continue;
    }
    const int first = number;
    while (fenced && line.ends_with('\\') && std::getline(lines, next)) {
      line.pop_back();
      line += next;
      ++number;
    }
    visit(first, line, fenced);
  }
}

std::vector<std::string> code_spans(const std::string& line) {
  std::vector<std::string> spans;
  std::size_t begin = 0;
  while ((begin = line.find('`', begin)) != std::string::npos) {
    const std::size_t end = line.find('`', begin + 1);
    if (end == std::string::npos) break;
    spans.push_back(line.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return spans;
}

std::vector<std::string> words_of(const std::string& text, std::string_view separators) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(separators, begin)) != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

// The name by which a link reaches a heading, as GitHub makes it.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '_' || c == '-' || byte >= 0x80) {
      anchor += static_cast<char>(std::tolower(byte));
    } else if (c == ' ') {
      anchor += '-';
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& text) {
  std::set<std::string> anchors;
  for_each_line(text, [&](int /*number*/, const std::string& line, bool fenced) {
    const std::size_t level = line.find_first_not_of('#');
    if (!fenced && level != std::string::npos && level > 0 && line[level] == ' ') {
      anchors.insert(anchor_of(std::string_view(line).substr(level + 1)));
    }
  });
  return anchors;
}

// The targets of a line's inline links and images, code spans left out.
std::vector<std::string> links_of(std::string line) {
  for (const std::string& span : code_spans(line)) {
    const std::string quoted = "`" + span + "`";
    line.replace(line.find(quoted), quoted.size(), "code");
  }
  std::vector<std::string> links;
  std::size_t begin = 0;
  while ((begin = line.find("](", begin)) != std::string::npos) {
    begin += 2;
    const std::size_t end = line.find(')', begin);
    if (end == std::string::npos) break;
    links.push_back(line.substr(begin, end - begin));
  }
  return links;
}

bool is_placeholder(const std::string& path) {
  int capitals = 0;
  for (const char c : path) {
    capitals = std::isupper(static_cast<unsigned char>(c)) != 0 ? capitals + 1 : 0;
    if (capitals == 2) return true;
  }
  const std::string file = path.substr(path.rfind('/') + 1);
  return file.starts_with("x.") || file.starts_with("x_") ||
         std::ranges::find(kInvented, path) != std::end(kInvented);
}

bool is_checked_path(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._+-").find(c) != std::string_view::npos;
  });
  if (!plain || is_placeholder(word) || word.find('/') == 0) return false;
  const auto ends = [&word](std::string_view ending) {
    return word.size() > ending.size() && word.ends_with(ending);
  };
  return std::ranges::any_of(kCheckedEndings, ends) ||
         std::ranges::any_of(kCheckedFolders,
                             [&word](std::string_view folder) { return word.starts_with(folder); });
}

bool names_a_path(const std::string& word, const std::set<std::string>& paths) {
  const std::string path = word.ends_with('/') ? word.substr(0, word.size() - 1) : word;
  return paths.contains(path) || std::ranges::any_of(paths, [&path](const std::string& known) {
           return known.ends_with("/" + path);
         });
}

// "podium" of "build/podium"; a script's path from the root; otherwise nothing.
std::string program_of(const std::string& word) {
  if (word == "podium" || word == "build/podium") return "podium";
  if ((word.starts_with("scripts/") || word.starts_with("bench/")) && word.ends_with(".sh")) {
    return word;
  }
  return "";
}

// The words of a command line, up to its comment. What stands in quotation marks is part of a word.
std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : text + " ") {
    if (quote == 0 && (c == ' ' || c == '\t')) {
      if (word.starts_with('#')) return words;
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
      continue;
    }
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    }
    word += c;
  }
  return words;
}

void collect_commands(const std::string& text, const std::string& where,
                      std::vector<NamedCommand>& commands) {
  bool open = false;
  for (std::string word : shell_words(text)) {
    const bool last = word.ends_with(';');
    while (word.ends_with(';') || word.ends_with(',')) word.pop_back();
    if (const std::string program = program_of(word); !program.empty()) {
      commands.push_back({where, program, {}});
      open = true;
    } else if (word == "|" || word == "&&" || word == ">") {
      open = false;
    } else if (open && !word.empty()) {
      commands.back().words.push_back(word);
    }
    if (last) open = false;
  }
}

}  // namespace

std::vector<Document> read_documents(const std::filesystem::path& root) {
  std::vector<Document> documents =
      read_below(root, "docs", [](const std::string& path) { return path.ends_with(".md"); });
  documents.push_back({"README.md", read_file(root / "README.md")});
  return documents;
}

std::vector<Document> read_code(const std::filesystem::path& root) {
  return read_below(root, "src", [](const std::string& path) {
    return path.ends_with(".h") || path.ends_with(".cc");
  });
}

std::set<std::string> tree_paths(const std::filesystem::path& root) {
  std::set<std::string> paths;
  std::filesystem::recursive_directory_iterator entry(root), end;
  for (; entry != end; ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() &&
        (name.starts_with('.') || name.starts_with("build") || name == "runs")) {
      entry.disable_recursion_pending();
      continue;
    }
    paths.insert(entry->path().lexically_relative(root).generic_string());
  }
  return paths;
}

std::vector<std::string> broken_references(const std::vector<Document>& documents,
                                           const std::set<std::string>& paths) {
  std::vector<std::string> broken;
  for (const Document& document : documents) {
    const std::filesystem::path folder = std::filesystem::path(document.path).parent_path();
    for_each_line(document.text, [&](int number, const std::string& line, bool fenced) {
      if (fenced) return;
      const std::string where = document.path + ":" + std::to_string(number) + ": ";
      for (const std::string& link : links_of(line)) {
        if (link.find("://") != std::string::npos) continue;
        const std::size_t hash = std::min(link.find('#'), link.size());
        std::string target = (folder / link.substr(0, hash)).lexically_normal().generic_string();
        if (target.ends_with('/')) target.pop_back();
        if (hash == 0) target = document.path;
        if (!paths.contains(target)) {
          broken.push_back(where + "the link " + link + " leads to no file");
          continue;
        }
        if (hash == link.size()) continue;
        const auto other = std::ranges::find(documents, target, &Document::path);
        if (other == documents.end() || !anchors_of(other->text).contains(link.substr(hash + 1))) {
          broken.push_back(where + "the link " + link + " leads to no heading");
        }
      }
      for (const std::string& span : code_spans(line)) {
        for (const std::string& word : words_of(span, " ;,()\"=[]<>")) {
          if (is_checked_path(word) && !names_a_path(word, paths)) {
            broken.push_back(where + "there is no file " + word);
          }
        }
      }
    });
  }
  return broken;
}

std::vector<NamedCommand> named_commands(const Document& document, bool is_code) {
  std::vector<NamedCommand> commands;
  for_each_line(document.text, [&](int number, const std::string& line, bool fenced) {
    const std::string where = document.path + ":" + std::to_string(number);
    if (fenced && !is_code) {
      collect_commands(line, where, commands);
    } else {
      for (const std::string& span : code_spans(line)) collect_commands(span, where, commands);
    }
  });
  return commands;
}

}  // namespace podium::house
