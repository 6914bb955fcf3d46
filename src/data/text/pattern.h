// A regular expression that cuts text into pieces, by PCRE2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace podium {

class Pattern {
 public:
  // `\s` is what Unicode calls white space, as in most other libraries. Throws UserError(kData),
  // which begins with `source`, if it is no regular expression.
  Pattern(const std::string& expression, const std::string& source);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // Calls piece(part) for the parts of `text`, which must be UTF-8: matches, and what lies between
  // them. Throws UserError(kData) if the expression takes too long on it.
  void cut(std::string_view text, const std::function<void(std::string_view)>& piece) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string source_;
};

}  // namespace podium
