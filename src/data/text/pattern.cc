#include "data/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

// Unicode's White_Space. PCRE2's own \s has U+180E, too, which is none since Unicode 6.3.
constexpr std::string_view kSpaces = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a})"
                                     R"(\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// With \s and, outside of brackets, \S written out.
std::string with_spaces(std::string_view expression) {
  std::string text;
  bool in_brackets = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char next = expression[++i];
      if (next == 's') {
        text += in_brackets ? std::string(kSpaces) : cat("[", kSpaces, "]");
      } else if (next == 'S' && !in_brackets) {
        text += cat("[^", kSpaces, "]");
      } else {
        text += {c, next};
      }
      continue;
    }
    if (c == '[') in_brackets = true;
    if (c == ']') in_brackets = false;
    text += c;
  }
  return text;
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern(const std::string& expression, const std::string& source)
    : code_(std::make_unique<Code>()), source_(source) {
  const std::string text = with_spaces(expression);
  int error = 0;
  PCRE2_SIZE place = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
  PODIUM_REQUIRE(code_->code != nullptr, ExitCode::kData, source, ": the pattern \"", expression,
                 "\" is no regular expression of PCRE2: ", message_of(error));
  // Where there is no compiler for this processor, it is interpreted.
  static_cast<void>(pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE));
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

void Pattern::cut(std::string_view text, const std::function<void(std::string_view)>& piece) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0, at = 0;
  while (at < text.size()) {
    int found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(),
                            nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    PODIUM_REQUIRE(found > 0, ExitCode::kData, source_,
                   ": the pattern cannot cut this text: ", message_of(found));
    const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(match.get());
    if (range[1] <= range[0]) {  // nothing: go on with the next character
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
      continue;
    }
    if (range[0] > done) piece(text.substr(done, range[0] - done));
    piece(text.substr(range[0], range[1] - range[0]));
    done = at = range[1];
  }
  if (done < text.size()) piece(text.substr(done));
}

}  // namespace podium
