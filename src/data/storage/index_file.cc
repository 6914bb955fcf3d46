#include "data/storage/index_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numerics/hash.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = "end ";

std::uint64_t checksum(std::string_view text) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string end_of(std::string_view body) { return cat(kEnd, hash_text(checksum(body)), "\n"); }

}  // namespace

std::string index_file_of(const std::string& what) {
  const std::string cache = cache_folder();
  if (cache.empty()) return "";
  return (fs::path(cache) / "indexes" / (hash_text(checksum(what)) + ".index")).string();
}

void keep_index_text(const std::string& path, const std::string& text) {
  if (path.empty() || keep_cache_file(path, text)) return;
  log(LogLevel::kInfo,
      cat(path, ": the index could not be saved there; it will be made again next time"));
}

void append_escaped(std::string& text, std::string_view name) {
  for (const char c : name) {
    if (c == '\n' || c == '%') {
      text += c == '\n' ? "%0A" : "%25";
    } else {
      text += c;
    }
  }
}

std::string with_checksum(std::string text) {
  text += end_of(text);
  return text;
}

IndexLines::IndexLines(std::string_view text, const std::string& name, std::string_view first)
    : text_(text), name_(name), size_(std::ssize(text)) {
  if (!text.starts_with(first))
    fail(cat("it does not begin with \"", first.substr(0, first.size() - 1), "\""));
  constexpr std::size_t kEndSize = kEnd.size() + 16 + 1;
  require(text.size() > kEndSize, "it ends too early");
  const std::string_view body = text.substr(0, text.size() - kEndSize);
  require(text.substr(body.size()) == end_of(body), "its checksum is wrong");
  line();
}

void IndexLines::fail(const std::string& what) const {
  throw UserError(cat(name_, ":", line_, ": ", what,
                      "; this is not a complete index: remove the file, and it will be made again"),
                  ExitCode::kData);
}

void IndexLines::require_count(std::int64_t count) const {
  require(count >= 0 && count <= size_, "a count is larger than the file");
}

std::string_view IndexLines::line() {
  ++line_;
  const std::size_t end = text_.find('\n');
  require(end != std::string_view::npos, "the line has no end");
  const std::string_view line = text_.substr(0, end);
  text_.remove_prefix(end + 1);
  return line;
}

std::int64_t IndexLines::number(std::string_view& line) const {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  require(error == std::errc(), "a number is missing");
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()));
  require(line.empty() || line.front() == ' ', "a number ends otherwise than in a blank");
  if (!line.empty()) line.remove_prefix(1);
  return value;
}

std::uint64_t IndexLines::hash(std::string_view& line) const {
  constexpr std::size_t kDigits = 16;
  std::uint64_t value = 0;
  const std::string_view digits = line.substr(0, kDigits);
  const auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  require(digits.size() == kDigits && error == std::errc() && rest == digits.data() + digits.size(),
          "a hash is missing");
  line.remove_prefix(kDigits);
  require(!line.empty() && line.front() == ' ', "a hash ends otherwise than in a blank");
  line.remove_prefix(1);
  return value;
}

std::string IndexLines::escaped(std::string_view line) const {
  std::string name;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '%') {
      name += line[i];
      continue;
    }
    const std::string_view code = line.substr(i, 3);
    require(code == "%0A" || code == "%25", "a % is followed by neither 0A nor 25");
    name += code == "%0A" ? '\n' : '%';
    i += 2;
  }
  return name;
}

void IndexLines::require_end() {
  require(line().starts_with(kEnd) && text_.empty(), "it has more than it counts");
}

}  // namespace podium
