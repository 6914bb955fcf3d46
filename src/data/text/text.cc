#include "data/text/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/numerics/philox.h"
#include "base/words.h"
#include "data/datasets/dataset.h"
#include "files/file_io.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostTextBytes = std::uint64_t{16} << 30;

// The files directly in a folder, by name; or the file itself.
std::vector<std::string> files_of(const std::string& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, error))
    if (entry.is_regular_file(error) && !entry.path().filename().string().starts_with('.'))
      files.push_back(entry.path().string());
  PODIUM_REQUIRE(!error, ExitCode::kData, place, ": cannot be read: ", error.message());
  PODIUM_REQUIRE(!files.empty(), ExitCode::kData, place,
                 " has no files; name a folder of texts or of shards of tokens");
  std::ranges::sort(files);
  return files;
}

std::vector<Document> read_documents(const std::vector<std::string>& files) {
  std::vector<Document> documents;
  for (const std::string& file : files) {
    documents.push_back({file, read_text(file, kMostTextBytes).value_or("")});
    if (documents.back().text.empty()) documents.pop_back();
  }
  PODIUM_REQUIRE(!documents.empty(), ExitCode::kData, files.front(),
                 files.size() == 1 ? " is empty; name a file that has text to train on"
                                   : " and all other files of its folder are empty");
  return documents;
}

std::int64_t vocabulary_of(const TextOptions& options, const Tokenizer* tokenizer) {
  return std::max(options.vocabulary, tokenizer != nullptr ? tokenizer->vocabulary() : 0);
}

TextSource::Part whole(std::string origin, std::shared_ptr<const Tokens> tokens,
                       const TextOptions& options, const Tokenizer* tokenizer) {
  const std::int64_t count = tokens->size();
  return {.origin = std::move(origin),
          .all = std::move(tokens),
          .count = count,
          .vocabulary = vocabulary_of(options, tokenizer),
          .words = tokenizer != nullptr ? tokenizer->words() : std::vector<std::string>(),
          .context = options.context,
          .streams = options.order == kStreamedWindows};
}

Text parts_of(TextSource::Part train, TextSource::Part held_out,
              std::shared_ptr<const Tokenizer> tokenizer) {
  train.shifts = !train.streams;
  Text text{std::make_shared<const TextSource>(std::move(train)),
            std::make_shared<const TextSource>(std::move(held_out)), std::move(tokenizer)};
  text.train->require_usable("the part to train on");
  text.held_out->require_usable("the part held out (data.held_out)");
  return text;
}

// The last share of `all` apart.
Text split(const TextSource::Part& all, double held_out,
           std::shared_ptr<const Tokenizer> tokenizer) {
  TextSource::Part train = all, rest = all;
  train.count =
      static_cast<std::int64_t>(std::floor(static_cast<double>(all.count) * (1 - held_out)));
  rest.first = train.count;
  rest.count = all.count - train.count;
  return parts_of(std::move(train), std::move(rest), std::move(tokenizer));
}

// Whether the files are shards of tokens, and not texts.
bool are_shards(const std::string& place, const std::vector<std::string>& files) {
  const auto shards = std::ranges::count_if(files, is_shard);
  PODIUM_REQUIRE(shards == 0 || shards == std::ssize(files), ExitCode::kData, place,
                 " has both shards of tokens, as ", *std::ranges::find_if(files, is_shard),
                 ", and other files, as ", *std::ranges::find_if_not(files, is_shard),
                 "; keep them in two folders");
  return shards > 0;
}

// All of a text, or of shards of tokens; of texts, the tokenizer is known.
TextSource::Part whole_text(const std::string& path, const Tokenizer* tokenizer,
                            const TextOptions& options, const std::string& data_dir) {
  const std::string place = find_text(path, data_dir);
  const std::vector<std::string> files = files_of(place);
  const bool shards = are_shards(place, files);
  PODIUM_REQUIRE(shards || tokenizer != nullptr, ExitCode::kData, place,
                 " is a text, and the tokenizer of the shards to train on is not known: name it, "
                 "data.tokenizer=PATH");
  std::shared_ptr<const Tokens> tokens = shards
                                             ? open_shards(files, vocabulary_of(options, tokenizer))
                                             : tokens_of(read_documents(files), *tokenizer);
  return whole(place, std::move(tokens), options, tokenizer);
}

Text open_token_shards(const std::string& place, const std::vector<std::string>& files,
                       const TextOptions& options, double held_out, const std::string& data_dir) {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::error_code error;
  PODIUM_REQUIRE(!fs::exists(fs::path(place) / kUnfinishedShards, error), ExitCode::kData, place,
                 ": some of its shards are missing, because `podium data tokenize` was stopped; "
                 "call it again with the same words");
  const std::string own = (fs::path(place) / kTokenizerFolder).string();
  if (is_tokenizer_path(options.tokenizer)) {
    tokenizer = open_tokenizer(options.tokenizer, data_dir);
  } else if (fs::is_directory(own, error)) {
    tokenizer = open_tokenizer(own, "");
  }
  PODIUM_REQUIRE(tokenizer || options.vocabulary > 0, ExitCode::kData, place,
                 " has tokens, and no folder `tokenizer`: name the one that they were made with, "
                 "data.tokenizer=PATH, or say how many tokens it has, data.vocabulary=N");
  const std::int64_t vocabulary = vocabulary_of(options, tokenizer.get());
  std::vector<std::string> train, rest;
  for (const std::string& file : files) {
    const bool is_held_out =
        files.size() > 1 && fs::path(file).filename().string().find("val") != std::string::npos;
    (is_held_out ? rest : train).push_back(file);
  }
  PODIUM_REQUIRE(!train.empty(), ExitCode::kData, place,
                 ": all shards have `val` in their name, so that none is left to train on");
  TextSource::Part all = whole(place, open_shards(train, vocabulary), options, tokenizer.get());
  if (!options.held_out_path.empty()) {
    TextSource::Part apart = whole_text(options.held_out_path, tokenizer.get(), options, data_dir);
    apart.vocabulary = vocabulary;
    return parts_of(std::move(all), std::move(apart), std::move(tokenizer));
  }
  if (rest.empty()) return split(all, held_out, std::move(tokenizer));
  TextSource::Part apart = whole(place, open_shards(rest, vocabulary), options, tokenizer.get());
  return parts_of(std::move(all), std::move(apart), std::move(tokenizer));
}

}  // namespace

std::string find_text(const std::string& path, const std::string& data_dir) {
  std::error_code error;
  std::string searched;
  for (const std::string& place : places_of(path, data_dir)) {
    if (fs::exists(place, error)) return place;
    searched += cat("\n  ", place);
  }
  throw UserError(cat("the text ", path, " was not found. Searched:", searched,
                      "\nName the file or folder: data.path=BOOK.txt, or the folder that it is in: "
                      "--data-dir"),
                  ExitCode::kData);
}

std::vector<Field> text_fields(std::int64_t context, std::int64_t vocabulary,
                               const std::vector<std::string>& words) {
  Field tokens{.name = "tokens",
               .dtype = DType::kI32,
               .shape = Shape{context},
               .unit = "token",
               .below = vocabulary,
               .words = words};
  Field next = tokens;
  next.name = "next";
  next.unit.clear();
  next.target = true;
  return {tokens, next};
}

TextSource::TextSource(Part part)
    : part_(std::move(part)),
      // A window needs the token after it, and a shift of up to a window leaves one less.
      examples_(std::max<std::int64_t>(
          0, (part_.count - (part_.shifts ? part_.context : 1)) / part_.context)) {}

std::vector<Field> TextSource::fields() const {
  return text_fields(part_.context, part_.vocabulary, part_.words);
}

void TextSource::read(std::int64_t index, const ExampleKey* key, FieldMemory to) const {
  const std::int64_t context = part_.context;
  std::int64_t shift = 0;
  if (part_.shifts && key != nullptr) {
    const PhiloxStream stream(key->seed, RandomPurpose::kText);
    const std::uint64_t word = stream.block(0, 0, static_cast<std::uint32_t>(key->epoch))[0];
    shift = static_cast<std::int64_t>((word * static_cast<std::uint64_t>(context)) >> 32);
  }
  const std::int64_t from = part_.first + index * context + shift;
  auto *const tokens = to.at<std::int32_t>(0), *const next = to.at<std::int32_t>(1);
  part_.all->copy(from, context, tokens);
  std::copy_n(tokens + 1, context - 1, next);
  part_.all->copy(from + context, 1, next + context - 1);
}

void TextSource::require_usable(const std::string& what) const {
  const std::int64_t least = part_.shifts ? 2 * part_.context : part_.context + 1;
  PODIUM_REQUIRE(examples_ > 0, ExitCode::kData, part_.origin, ": ", what, " has ",
                 count_text(part_.count, "token"), ", and needs at least ", least,
                 " for windows of data.context = ", part_.context,
                 "; use a longer text or a shorter context");
}

std::string TextSource::identity(StopToken stop) const {
  std::uint64_t hash = part_.all->hash(part_.first, part_.count, stop);
  for (const std::string& word : part_.words)
    hash = hash_append(
        hash, hash_bytes({reinterpret_cast<const std::uint8_t*>(word.data()), word.size()}));
  return cat(count_text(part_.count, "token"), " in windows of ", part_.context, ", hash ",
             hash_text(hash));
}

std::int64_t TextSource::memory_bytes() const { return part_.all->memory_bytes(part_.count); }

// A table of the order of 100 billion tokens would take more memory than the network.
VisitOrder TextSource::order() const {
  if (part_.streams) return VisitOrder::kStreams;
  return part_.all->is_in_files() && part_.shifts ? VisitOrder::kPermuted : VisitOrder::kShuffled;
}

Text open_text(const std::string& path, const TextOptions& options, double held_out,
               const std::string& data_dir) {
  const std::string place = find_text(path, data_dir);
  const std::vector<std::string> files = files_of(place);
  if (are_shards(place, files)) return open_token_shards(place, files, options, held_out, data_dir);
  const std::vector<Document> documents = read_documents(files);
  std::shared_ptr<const Tokenizer> tokenizer =
      tokenizer_for(options.tokenizer, documents, data_dir);
  TextSource::Part all = whole(place, tokens_of(documents, *tokenizer), options, tokenizer.get());
  if (options.held_out_path.empty()) return split(all, held_out, std::move(tokenizer));
  TextSource::Part apart = whole_text(options.held_out_path, tokenizer.get(), options, data_dir);
  return parts_of(std::move(all), std::move(apart), std::move(tokenizer));
}

std::shared_ptr<const TextSource> open_whole_text(const std::string& path,
                                                  const Tokenizer& tokenizer,
                                                  const TextOptions& options,
                                                  const std::string& data_dir) {
  const auto text =
      std::make_shared<const TextSource>(whole_text(path, &tokenizer, options, data_dir));
  text->require_usable("the text");
  return text;
}

}  // namespace podium
