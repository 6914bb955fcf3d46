// Words and numbers in texts for people: which known word did the user mean (used by every error
// about an unknown name), lists, large numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// The number of edits (insert, delete, replace) that make one word the other.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

// The first of the nearest; empty where there are none.
inline std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  const auto nearest =
      std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
        return edit_distance(word, a) < edit_distance(word, b);
      });
  return nearest == known.end() ? "" : *nearest;
}

// Whether a name is one of those that a pattern means: `*` stands for any characters, or none, `?`
// for one, all else for itself.
inline bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, after_star = 0;  // where to try again, one longer
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, after_star = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1, n = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

inline std::string join_words(const std::vector<std::string>& words,
                              std::string_view between = ", ") {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

// Without `blanks` around it.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t") {
  const std::size_t begin = text.find_first_not_of(blanks), end = text.find_last_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

// With `by` in place of each `what`, which is not empty.
inline std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// The lines of a text, without their ends; what follows the last end is one if it is not empty.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// ASCII letters as small ones.
inline std::string lowercase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// "40,800"
inline std::string with_commas(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto i = static_cast<std::int64_t>(text.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3)
    text.insert(static_cast<std::size_t>(i), 1, ',');
  return text;
}

// "1 picture", "2,000 pictures"; a plural without an s is `several`.
inline std::string count_text(std::int64_t n, std::string_view one, std::string_view several = {}) {
  std::string text = with_commas(n) + " ";
  if (n == 1 || several.empty())
    text += one;
  else
    text += several;
  if (n != 1 && several.empty()) text += 's';
  return text;
}

}  // namespace podium
