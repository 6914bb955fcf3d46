#include "data/text/bleu.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/error.h"
#include "base/numerics/functions.h"

namespace podium {
namespace {

constexpr std::size_t kOrders = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// ASCII but for letters, digits, blanks, ' - . and ,
bool stands_apart(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// A pass over pairs of neighbours, none of which is in two: where `found`, both with these around.
template <typename Found>
std::string with_pairs(const std::string& text, const Found& found, const char* before,
                       const char* between, const char* after) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && found(text[i], text[i + 1])) {
      ((((out += before) += text[i]) += between) += text[i + 1]) += after;
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

using Counts = std::map<std::vector<std::string_view>, std::int64_t>;
Counts counts_of(const std::vector<std::string>& tokens, std::size_t order) {
  Counts counts;
  for (std::size_t i = 0; i + order <= tokens.size(); ++i)
    ++counts[{tokens.begin() + static_cast<std::ptrdiff_t>(i),
              tokens.begin() + static_cast<std::ptrdiff_t>(i + order)}];
  return counts;
}

}  // namespace

std::vector<std::string> bleu_tokens(std::string_view given) {
  std::string text(given);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  for (const auto& [from, to] :
       {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(text, from, to);
  std::string apart = " ";
  for (const char c : text)
    if (stands_apart(c))
      ((apart += ' ') += c) += ' ';
    else
      apart += c;
  apart += ' ';
  const auto is_point = [](char c) { return c == '.' || c == ','; };
  apart = with_pairs(
      apart, [&](char a, char b) { return !is_digit(a) && is_point(b); }, "", " ", " ");
  apart = with_pairs(
      apart, [&](char a, char b) { return is_point(a) && !is_digit(b); }, " ", " ", "");
  apart = with_pairs(
      apart, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ", " ");
  std::vector<std::string> tokens;
  constexpr const char* kBlanks = " \t\r\v\f";
  for (std::size_t at = apart.find_first_not_of(kBlanks); at != std::string::npos;) {
    const std::size_t end = std::min(apart.find_first_of(kBlanks, at), apart.size());
    tokens.push_back(apart.substr(at, end - at));
    at = apart.find_first_not_of(kBlanks, end);
  }
  return tokens;
}

double bleu(const std::vector<std::string>& translations,
            const std::vector<std::string>& references) {
  PODIUM_CHECK(translations.size() == references.size());
  std::array<std::int64_t, kOrders> right{}, all{};
  std::int64_t length = 0, wanted = 0;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const std::vector<std::string> own = bleu_tokens(translations[i]),
                                   other = bleu_tokens(references[i]);
    length += std::ssize(own), wanted += std::ssize(other);
    for (std::size_t n = 1; n <= kOrders; ++n) {
      const Counts known = counts_of(other, n);
      for (const auto& [tokens, count] : counts_of(own, n)) {
        const auto found = known.find(tokens);
        all[n - 1] += count;
        if (found != known.end()) right[n - 1] += std::min(count, found->second);
      }
    }
  }
  if (right[0] == 0 || all.back() == 0) return 0;
  double sum = 0, none = 1;
  for (std::size_t n = 0; n < kOrders; ++n) {
    if (right[n] == 0) none *= 2;
    const double found = right[n] == 0 ? 1 / none : static_cast<double>(right[n]);
    sum += log_f64(found / static_cast<double>(all[n]));
  }
  const double brevity =
      length >= wanted ? 0 : 1 - static_cast<double>(wanted) / static_cast<double>(length);
  return 100 * exp_f64(brevity + sum / kOrders);
}

}  // namespace podium
