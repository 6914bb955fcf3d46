#include "data/pictures/shards/shard_pattern.h"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostPatterns = std::size_t{1} << 17;

bool is_digits(const std::string& text) {
  return !text.empty() && text.size() <= 9 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// What stands between two braces: "a,b" or "000..146". Empty: these braces mean themselves.
std::vector<std::string> choices_of(const std::string& inside) {
  std::vector<std::string> choices;
  if (const std::size_t dots = inside.find(".."); dots != std::string::npos) {
    const std::string first = inside.substr(0, dots), last = inside.substr(dots + 2);
    if (!is_digits(first) || !is_digits(last)) return {};
    const std::int64_t begin = std::stoll(first), end = std::stoll(last);
    for (std::int64_t i = begin; i <= end && choices.size() <= kMostPatterns; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      choices.push_back(std::move(digits));
    }
    return choices;
  }
  if (inside.find(',') == std::string::npos) return {};
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', begin), inside.size());
    choices.push_back(inside.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

bool has_wildcard(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths;
  for (std::size_t i = 0; status == 0 && i < found.gl_pathc; ++i)
    paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return paths;
}

const char* ends_of(PictureFormat format) {
  return format == PictureFormat::kTar ? ".tar" : ".tfrecord, .tfrecords or -00000-of-00128";
}

}  // namespace

bool is_shard_name(PictureFormat format, const std::string& name) {
  if (name.starts_with('.')) return false;
  if (format == PictureFormat::kTar) return name.ends_with(".tar");
  if (name.ends_with(".tfrecord") || name.ends_with(".tfrecords")) return true;
  const std::size_t of = name.rfind("-of-");
  if (of == std::string::npos || of == 0 || !is_digits(name.substr(of + 4))) return false;
  const std::size_t dash = name.rfind('-', of - 1);
  return dash != std::string::npos && is_digits(name.substr(dash + 1, of - dash - 1));
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> done, open = {pattern};
  while (!open.empty()) {
    const std::string text = std::move(open.back());
    open.pop_back();
    bool expanded = false;
    for (std::size_t begin = text.find('{'); begin != std::string::npos && !expanded;
         begin = text.find('{', begin + 1)) {
      const std::size_t end = text.find_first_of("{}", begin + 1);
      if (end == std::string::npos || text[end] != '}') continue;
      for (const std::string& choice : choices_of(text.substr(begin + 1, end - begin - 1))) {
        expanded = true;
        open.push_back(text.substr(0, begin) + choice + text.substr(end + 1));
      }
    }
    if (!expanded) done.push_back(text);
    PODIUM_REQUIRE(open.size() + done.size() <= kMostPatterns, ExitCode::kData, pattern,
                   ": its braces mean more than ", kMostPatterns,
                   " files; narrow them, or write * in their place");
  }
  std::ranges::sort(done);
  return done;
}

bool matches_files(const std::string& pattern) {
  std::error_code error;
  if (fs::exists(pattern, error)) return true;
  return std::ranges::any_of(expand_braces(pattern), [&](const std::string& one) {
    return has_wildcard(one) ? !matches_of(one).empty() : fs::exists(one, error);
  });
}

std::vector<std::string> find_shards(PictureFormat format, const std::string& pattern) {
  std::error_code error;
  std::vector<std::string> paths;
  if (fs::is_directory(pattern, error)) {
    fs::directory_iterator entry(pattern, error);
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
      if (is_shard_name(format, entry->path().filename().string()))
        paths.push_back(entry->path().string());
    PODIUM_REQUIRE(!error, ExitCode::kData, pattern, ": ", error.message(), "; make it readable");
    PODIUM_REQUIRE(!paths.empty(), ExitCode::kData, pattern,
                   ": has no shards; these are files whose names end in ", ends_of(format),
                   "; name others by a pattern, as in \"", pattern, "/*.bin\"");
  } else if (fs::exists(pattern, error)) {
    paths.push_back(pattern);
  } else {
    for (const std::string& one : expand_braces(pattern)) {
      if (has_wildcard(one)) {
        std::ranges::move(matches_of(one), std::back_inserter(paths));
        continue;
      }
      PODIUM_REQUIRE(fs::exists(one, error) || one == pattern, ExitCode::kData, one,
                     ": this shard of ", pattern,
                     " is missing; bring it here, or change the pattern");
      if (one != pattern) paths.push_back(one);
    }
    PODIUM_REQUIRE(
        !paths.empty(), ExitCode::kData, pattern,
        ": no file has such a name; *, ? and [] stand for signs, {000..146} for numbers");
  }
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace podium
