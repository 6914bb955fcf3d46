#include "data/text/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/words.h"
#include "data/datasets/dataset.h"
#include "data/text/utf8.h"
#include "files/file_io.h"

namespace podium {
namespace {

// Tokens are kept in 16 bits.
constexpr std::int64_t kMostWords = 65536;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;

std::string place_of(std::string_view text, std::size_t at) {
  return cat("line ", 1 + std::ranges::count(text.substr(0, at), '\n'), " (byte ", at, ")");
}

// The bytes of the character that begins at `at`.
std::string_view character_at(std::string_view text, std::size_t at, const std::string& source) {
  const std::size_t bytes = utf8_length(text.substr(at));
  PODIUM_REQUIRE(bytes > 0, ExitCode::kData, source, ": ", place_of(text, at),
                 " is not UTF-8, and tokens are characters; save the file in that encoding, or "
                 "train on its bytes: data.tokenizer=bytes");
  return text.substr(at, bytes);
}

}  // namespace

Tokenizer::Tokenizer(std::vector<std::string> characters) : words_(std::move(characters)) {}

Tokenizer Tokenizer::of_characters(std::string_view text, const std::string& source) {
  // In UTF-8, the order of bytes is that of code points.
  std::set<std::string_view> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at, source);
    found.insert(character);
    at += character.size();
  }
  PODIUM_REQUIRE(std::ssize(found) <= kMostWords, ExitCode::kData, source, " has ", found.size(),
                 " different characters; at most ", kMostWords,
                 " can be tokens, so train on its bytes: data.tokenizer=bytes");
  return Tokenizer({found.begin(), found.end()});
}

Tokenizer Tokenizer::of_words(const std::string& tokenizer, const std::vector<std::string>& words) {
  return tokenizer == kByteTokens ? Tokenizer() : Tokenizer(words);
}

std::int64_t Tokenizer::vocabulary() const {
  return words_.empty() ? 256 : static_cast<std::int64_t>(words_.size());
}

std::vector<std::uint16_t> Tokenizer::tokens_of(std::string_view text,
                                                const std::string& source) const {
  std::vector<std::uint16_t> tokens;
  tokens.reserve(text.size());
  if (words_.empty()) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at, source);
    const auto word = std::ranges::lower_bound(
        words_, character, {}, [](const std::string& w) { return std::string_view(w); });
    PODIUM_REQUIRE(word != words_.end() && *word == character, ExitCode::kData, source, ": ",
                   place_of(text, at), " has the character \"", character,
                   "\", which the text of the training did not have; leave it out");
    tokens.push_back(static_cast<std::uint16_t>(word - words_.begin()));
    at += character.size();
  }
  return tokens;
}

std::string Tokenizer::text_of(std::int64_t token) const {
  if (words_.empty()) return std::string(1, static_cast<char>(token));
  return words_.at(static_cast<std::size_t>(token));
}

TextSource::TextSource(std::string file, std::shared_ptr<const std::vector<std::uint16_t>> all,
                       std::int64_t first, std::int64_t count, const Tokenizer& tokenizer,
                       std::int64_t context, bool shifts)
    : file_(std::move(file)),
      all_(std::move(all)),
      first_(first),
      count_(count),
      context_(context),
      vocabulary_(tokenizer.vocabulary()),
      // A window needs the token after it, and a shift of up to a window leaves one less.
      examples_(std::max<std::int64_t>(0, (count - (shifts ? context : 1)) / context)),
      words_(tokenizer.words()),
      shifts_(shifts) {}

std::vector<Field> TextSource::fields() const {
  Field tokens{.name = "tokens",
               .dtype = DType::kI32,
               .shape = Shape{context_},
               .unit = "token",
               .below = vocabulary_,
               .words = words_};
  Field next = tokens;
  next.name = "next";
  next.unit.clear();
  next.target = true;
  return {tokens, next};
}

void TextSource::read(std::int64_t index, const ExampleKey* key, FieldMemory to) const {
  std::int64_t shift = 0;
  if (shifts_ && key != nullptr) {
    const PhiloxStream stream(key->seed, RandomPurpose::kText);
    const std::uint64_t word = stream.block(0, 0, static_cast<std::uint32_t>(key->epoch))[0];
    shift = static_cast<std::int64_t>((word * static_cast<std::uint64_t>(context_)) >> 32);
  }
  const auto from = all_->begin() + first_ + index * context_ + shift;
  std::copy_n(from, context_, to.at<std::int32_t>(0));
  std::copy_n(from + 1, context_, to.at<std::int32_t>(1));
}

void TextSource::require_usable(const std::string& what) const {
  const std::int64_t least = shifts_ ? 2 * context_ : context_ + 1;
  PODIUM_REQUIRE(examples_ > 0, ExitCode::kData, file_, ": ", what, " has ",
                 count_text(count_, "token"), ", and needs at least ", least,
                 " for windows of data.context = ", context_,
                 "; use a longer text or a shorter context");
}

std::string TextSource::identity(StopToken stop) const {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(all_->data() + first_);
  std::uint64_t hash = hash_bytes({bytes, static_cast<std::size_t>(2 * count_)}, stop);
  for (const std::string& word : words_)
    hash = hash_append(
        hash, hash_bytes({reinterpret_cast<const std::uint8_t*>(word.data()), word.size()}));
  return cat(count_text(count_, "token"), " in windows of ", context_, ", hash ", hash_text(hash));
}

std::int64_t TextSource::memory_bytes() const { return 2 * count_; }

std::string find_text(const std::string& path, const std::string& data_dir) {
  return find_own_file(path, data_dir, kTextData, "a file of text", "BOOK.txt");
}

Text open_text(const std::string& path, const TextOptions& options, double held_out,
               const std::string& data_dir) {
  const std::string file = find_text(path, data_dir);
  const std::string text = read_text(file, kMostBytes).value_or("");
  PODIUM_REQUIRE(!text.empty(), ExitCode::kData, file,
                 " is empty; name a file that has text to train on");
  const Tokenizer tokenizer =
      options.tokenizer == kByteTokens ? Tokenizer() : Tokenizer::of_characters(text, file);
  const auto all =
      std::make_shared<const std::vector<std::uint16_t>>(tokenizer.tokens_of(text, file));
  const auto count = static_cast<std::int64_t>(all->size());
  const auto kept =
      static_cast<std::int64_t>(std::floor(static_cast<double>(count) * (1 - held_out)));
  const auto part = [&](std::int64_t first, std::int64_t size, bool shifts) {
    return std::make_shared<const TextSource>(file, all, first, size, tokenizer, options.context,
                                              shifts);
  };
  Text parts{part(0, kept, true), part(kept, count - kept, false)};
  parts.train->require_usable("the part to train on");
  parts.held_out->require_usable("the part held out (data.held_out)");
  return parts;
}

}  // namespace podium
