#include "data/text/tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "data/storage/npy.h"
#include "files/file_io.h"

namespace podium {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are read as they are");

constexpr std::int64_t kShort = 65536;  // two bytes hold what is below it
constexpr const char* kAgain = "; make the shard again: podium data tokenize";

// --- in memory

template <typename Word>
class MemoryTokens final : public Tokens {
 public:
  std::vector<Word> words;

  std::int64_t size() const override { return std::ssize(words); }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* to) const override {
    std::copy_n(words.begin() + first, count, to);
  }
  std::uint64_t hash(std::int64_t first, std::int64_t count, StopToken stop) const override {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(words.data() + first);
    return hash_bytes({bytes, sizeof(Word) * static_cast<std::size_t>(count)}, stop);
  }
  std::int64_t memory_bytes(std::int64_t count) const override {
    return static_cast<std::int64_t>(sizeof(Word)) * count;
  }
};

template <typename Word>
std::shared_ptr<const Tokens> encoded(const std::vector<Document>& documents,
                                      const Tokenizer& tokenizer) {
  auto tokens = std::make_shared<MemoryTokens<Word>>();
  const auto add = [&](std::int32_t token) { tokens->words.push_back(static_cast<Word>(token)); };
  for (const Document& document : documents) {
    if (&document != &documents.front()) {
      if (const auto separator = tokenizer.separator()) {
        add(*separator);
      } else if (!std::string_view((&document)[-1].text).ends_with('\n')) {
        tokenizer.encode("\n", document.source, add);
      }
    }
    if (documents.size() == 1) tokens->words.reserve(document.text.size() / 4);
    tokenizer.encode(document.text, document.source, add);
  }
  tokens->words.shrink_to_fit();
  return tokens;
}

// --- in files

struct TokenFile {
  std::string file;
  std::int64_t first = 0, count = 0;  // of all tokens
  std::uint64_t begin = 0, size = 0;  // of the numbers in the file, and of the file
  int width = 2;                      // bytes of a token
  std::string kind;                   // for people
};

TokenFile read_token_npy(const std::string& file, std::span<const std::uint8_t> head) {
  const NpyHeader header = parse_npy_header(head, file);
  PODIUM_REQUIRE(header.shape.size() == 1 && header.shape[0] >= 0, ExitCode::kData, file, ": has ",
                 count_text(std::ssize(header.shape), "dimension"),
                 "; tokens have one, so save array.ravel()");
  PODIUM_REQUIRE(
      !header.swapped && (header.type == "u2" || header.type == "u4" || header.type == "i4"),
      ExitCode::kData, file, ": its numbers are \"", header.type,
      header.swapped ? "\", big-endian" : "\"",
      "; tokens are u2, u4 or i4, so save array.astype('<u2')");
  return {.file = file,
          .count = header.shape[0],
          .begin = header.begin,
          .width = header.type == "u2" ? 2 : 4,
          .kind = cat(".npy of ", header.type)};
}

TokenFile read_token_bin(const std::string& file, std::span<const std::uint8_t> head,
                         std::uint64_t size) {
  constexpr std::uint32_t kShortMagic = 20240520, kLongMagic = 20240801;
  constexpr std::uint64_t kHeader = 256 * 4;
  std::array<std::uint32_t, 3> words{};  // magic, version, tokens
  if (head.size() >= sizeof(words)) std::memcpy(words.data(), head.data(), sizeof(words));
  if (words[0] == kShortMagic || words[0] == kLongMagic) {
    PODIUM_REQUIRE(size >= kHeader, ExitCode::kData, file, ": the file ends within its header of ",
                   kHeader, " bytes", kAgain);
    return {.file = file,
            .count = words[2],
            .begin = kHeader,
            .width = words[0] == kShortMagic ? 2 : 4,
            .kind = cat(".bin of llm.c, ", words[0])};
  }
  PODIUM_REQUIRE(size % 2 == 0, ExitCode::kData, file, ": byte ", size - 1,
                 ": the file ends within a token of two bytes", kAgain);
  return {.file = file,
          .count = static_cast<std::int64_t>(size / 2),
          .width = 2,
          .kind = ".bin of u2 without a header"};
}

TokenFile read_token_file(const std::string& file) {
  const InputFile input(file);
  std::vector<std::uint8_t> head(std::min<std::uint64_t>(input.size(), kMostNpyHeader));
  input.read(0, std::as_writable_bytes(std::span(head)));
  TokenFile shard = std::filesystem::path(file).extension() == ".npy"
                        ? read_token_npy(file, head)
                        : read_token_bin(file, head, input.size());
  shard.size = input.size();
  const std::uint64_t there = (shard.size - shard.begin) / static_cast<std::uint64_t>(shard.width);
  PODIUM_REQUIRE(static_cast<std::uint64_t>(shard.count) <= there, ExitCode::kData, file, ": has ",
                 there, " tokens, and its header says ", shard.count, "; it was cut off", kAgain);
  return shard;
}

class ShardTokens final : public Tokens {
 public:
  ShardTokens(std::vector<TokenFile> shards, std::int64_t vocabulary)
      : shards_(std::move(shards)), vocabulary_(vocabulary) {
    for (TokenFile& shard : shards_) {
      PODIUM_REQUIRE(shard.kind == shards_[0].kind, ExitCode::kData, shard.file, " is a ",
                     shard.kind, ", and ", shards_[0].file, " a ", shards_[0].kind,
                     "; keep shards of one kind in a folder");
      shard.first = size_;
      size_ += shard.count;
    }
  }
  std::int64_t size() const override { return size_; }
  bool is_in_files() const override { return true; }
  std::int64_t memory_bytes(std::int64_t) const override { return 0; }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* to) const override {
    auto shard = std::ranges::upper_bound(shards_, first, {}, &TokenFile::first) - 1;
    for (; count > 0; ++shard) {
      const std::int64_t from = first - shard->first, here = std::min(count, shard->count - from);
      read(*shard, from, here, to);
      first += here, count -= here, to += here;
    }
  }

  std::uint64_t hash(std::int64_t first, std::int64_t count, StopToken stop) const override {
    constexpr std::int64_t kPart = 1 << 22;
    std::vector<std::int32_t> part;
    std::uint64_t hash = 0;
    for (std::int64_t at = 0; at < count; at += kPart) {
      part.resize(static_cast<std::size_t>(std::min(kPart, count - at)));
      copy(first + at, std::ssize(part), part.data());
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(part.data());
      hash = hash_append(hash, hash_bytes({bytes, 4 * part.size()}, stop));
    }
    return hash;
  }

 private:
  // A file is open only while it is read: there may be more of them than a process may have open.
  void read(const TokenFile& shard, std::int64_t from, std::int64_t count, std::int32_t* to) const {
    const InputFile input(shard.file);
    PODIUM_REQUIRE(input.size() == shard.size, ExitCode::kData, shard.file, ": has ", input.size(),
                   " bytes, and had ", shard.size, " when the run began; put it back as it was");
    const auto width = static_cast<std::uint64_t>(shard.width);
    const std::uint64_t place = shard.begin + width * static_cast<std::uint64_t>(from);
    const std::span<std::int32_t> tokens(to, static_cast<std::size_t>(count));
    if (width == 4) {
      input.read(place, std::as_writable_bytes(tokens));
    } else {
      // The second half of the memory is read into, and widened from its beginning.
      const auto words = std::as_writable_bytes(tokens).last(2 * tokens.size());
      input.read(place, words);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::uint16_t word = 0;
        std::memcpy(&word, words.data() + 2 * i, 2);
        tokens[i] = word;
      }
    }
    // As unsigned numbers, so that negative ones are too large.
    for (std::size_t i = 0; i < tokens.size(); ++i)
      PODIUM_REQUIRE(static_cast<std::uint32_t>(tokens[i]) < vocabulary_, ExitCode::kData,
                     shard.file, ": position ", from + static_cast<std::int64_t>(i), ": the token ",
                     static_cast<std::uint32_t>(tokens[i]), " is not in the vocabulary of ",
                     vocabulary_,
                     "; name the tokenizer that the shards were made with (data.tokenizer), or a "
                     "larger data.vocabulary");
  }

  std::vector<TokenFile> shards_;
  std::int64_t vocabulary_, size_ = 0;
};

}  // namespace

Tokens::~Tokens() = default;

std::shared_ptr<const Tokens> tokens_of(const std::vector<Document>& documents,
                                        const Tokenizer& tokenizer) {
  return tokenizer.vocabulary() <= kShort ? encoded<std::uint16_t>(documents, tokenizer)
                                          : encoded<std::int32_t>(documents, tokenizer);
}

std::shared_ptr<const Tokens> open_shards(const std::vector<std::string>& files,
                                          std::int64_t vocabulary) {
  std::vector<TokenFile> shards;
  for (const std::string& file : files) shards.push_back(read_token_file(file));
  return std::make_shared<const ShardTokens>(std::move(shards), vocabulary);
}

bool is_shard(const std::filesystem::path& file) {
  return file.extension() == ".bin" || file.extension() == ".npy";
}

void write_shard(const std::filesystem::path& file, const std::vector<std::int32_t>& tokens,
                 std::int64_t vocabulary) {
  const bool is_short = vocabulary <= kShort;
  std::string header = cat("{'descr': '<u", is_short ? 2 : 4,
                           "', 'fortran_order': False, 'shape': (", tokens.size(), ",), }");
  // The numbers begin at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string start = "\x93NUMPY\x01";
  start += '\0';
  start += static_cast<char>(header.size() % 256);
  start += static_cast<char>(header.size() / 256);
  replace_file(file, [&](OutputFile& output) {
    output.write(start + header);
    if (is_short) {
      const std::vector<std::uint16_t> words(tokens.begin(), tokens.end());
      output.write(std::as_bytes(std::span(words)));
    } else {
      output.write(std::as_bytes(std::span(tokens)));
    }
  });
}

}  // namespace podium
