#include "data/pairs/pairs.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "data/sentences/sentence_reader.h"
#include "data/sentences/sentences.h"
#include "data/source/own_files.h"
#include "data/table/columns.h"
#include "data/text/utf8.h"
#include "files/byte_source.h"

namespace podium {
namespace {

constexpr const char* kTargetColumn = "target";
constexpr std::uint64_t kMostPairBytes = std::uint64_t{4} << 30;

// The lines of a file, plain or gzip, as a column.
Cells read_lines(const std::string& file, const std::string& column) {
  const std::string text =
      as_utf8(unpacked_text(file, "name a file with a sentence on each line", kMostPairBytes));
  Cells cells{.file = file, .names = {column}};
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    cells.cells.emplace_back(trimmed(rest.substr(0, end)));
    if (cells.cells.back().ends_with('\r')) cells.cells.back().pop_back();
    cells.lines.push_back(std::ssize(cells.cells));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  PODIUM_REQUIRE(cells.rows() > 0, ExitCode::kData, file, " has no sentences");
  return cells;
}

// Where each side's sentences stand.
struct PairCells {
  Cells source, target;
  std::int64_t source_column = 0, target_column = 0;
};

PairCells read_pairs(const std::string& path, const std::string& target_path,
                     const TextOptions& text, const TableOptions& table,
                     const std::string& data_dir) {
  const OwnFile& own = *own_file(kPairData);
  const std::string file = find_own_file(own, path, data_dir);
  if (!target_path.empty()) {
    PairCells both{read_lines(file, text.text_column),
                   read_lines(find_own_file(own, target_path, data_dir), kTargetColumn)};
    PODIUM_REQUIRE(both.source.rows() == both.target.rows(), ExitCode::kData, file, " has ",
                   count_text(both.source.rows(), "line"), ", and ", both.target.file, " has ",
                   with_commas(both.target.rows()),
                   "; the sentences of a pair stand in lines of the same number");
    return both;
  }
  const std::string kind = std::filesystem::path(file).extension().string();
  PODIUM_REQUIRE(
      kind == ".csv" || kind == ".tsv" || kind == ".jsonl", ExitCode::kData, file,
      ": is no table (.csv, .tsv, .jsonl), so the other language must have a file of its "
      "own; name it: data.target_path=FILE, and data.held_out_target_path=FILE if there "
      "is a data.held_out_path");
  PairCells both{read_sentences(file, true), {}};
  both.target = both.source;
  both.source_column = text_column(both.source, text.text_column);
  both.target_column = label_column(both.source, table, both.source_column);
  return both;
}

// The wanted sentences, each on a line.
Document document_of(const PairCells& cells, const std::vector<bool>& wanted) {
  Document all{cells.source.file, ""};
  for (std::int64_t row = 0; row < cells.source.rows(); ++row)
    if (wanted[static_cast<std::size_t>(row)])
      all.text += cat(cells.source.at(row, cells.source_column), "\n",
                      cells.target.at(row, cells.target_column), "\n");
  return all;
}

}  // namespace

std::vector<Field> pair_fields(std::int64_t context, std::int64_t vocabulary,
                               const std::vector<std::string>& words) {
  Field source{.name = kSourceField,
               .dtype = DType::kI32,
               .shape = Shape{context},
               .below = vocabulary,
               .words = words,
               .longest = context};
  Field tokens = source;
  tokens.name = kTokensField, tokens.unit = "token";
  Field next = tokens;
  next.name = kNextField, next.unit.clear(), next.target = true;
  return {
      source, Field{.name = kSourceLengthField, .dtype = DType::kI32}, tokens,
      Field{
          .name = kWeightsField, .dtype = DType::kI32, .shape = Shape{context}, .longest = context},
      next};
}

PairSource::PairSource(std::string origin, std::vector<Field> fields, std::int32_t end,
                       TokenRows source, TokenRows target, std::vector<std::int64_t> buckets)
    : origin_(std::move(origin)),
      fields_(std::move(fields)),
      end_(end),
      context_(fields_.at(0).shape[0]),
      source_(std::move(source)),
      target_(std::move(target)),
      lengths_(std::move(buckets)) {
  if (!lengths_.empty()) lengths_.push_back(context_);
}

std::size_t PairSource::bucket_of(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  const std::int64_t length = std::max(source_.lengths[i], target_.lengths[i]);
  return static_cast<std::size_t>(std::ranges::lower_bound(lengths_, length) - lengths_.begin());
}

std::vector<std::int32_t> PairSource::source_tokens(std::int64_t index) const {
  return tokens_of(source_, index);
}
std::vector<std::int32_t> PairSource::target_tokens(std::int64_t index) const {
  return tokens_of(target_, index);
}
std::vector<std::int32_t> PairSource::tokens_of(const TokenRows& side, std::int64_t index) const {
  const auto first = side.tokens.begin() + index * context_;
  return {first, first + side.lengths[static_cast<std::size_t>(index)]};
}

void PairSource::read(std::int64_t index, const ExampleKey* /*key*/, FieldMemory to) const {
  const auto i = static_cast<std::size_t>(index);
  std::copy_n(source_.tokens.begin() + index * context_, context_, to.at<std::int32_t>(0));
  *to.at<std::int32_t>(1) = source_.lengths[i];
  auto *const tokens = to.at<std::int32_t>(2), *const weights = to.at<std::int32_t>(3),
              *const next = to.at<std::int32_t>(4);
  const std::int32_t* const own = target_.tokens.data() + index * context_;
  tokens[0] = end_;
  std::copy_n(own, context_ - 1, tokens + 1);
  std::copy_n(own, context_, next);
  for (std::int64_t t = 0; t < context_; ++t) weights[t] = t < target_.lengths[i] ? 1 : 0;
}

void PairSource::require_usable(const std::string& what) const {
  PODIUM_REQUIRE(examples() > 0, ExitCode::kData, origin_, ": ", what,
                 " has no pairs; give a file with more of them");
}

std::string PairSource::identity(StopToken stop) const {
  const auto hash_of = [&](const std::vector<std::int32_t>& words) {
    return hash_bytes({reinterpret_cast<const std::uint8_t*>(words.data()), words.size() * 4},
                      stop);
  };
  std::uint64_t hash = hash_append(hash_of(source_.tokens), hash_of(source_.lengths));
  hash = hash_append(hash_append(hash, hash_of(target_.tokens)), hash_of(target_.lengths));
  return cat(count_text(examples(), "pair"), " of ", count_text(context_, "token"), ", hash ",
             hash_text(hash));
}

std::int64_t PairSource::memory_bytes() const {
  return 4 * (std::ssize(source_.tokens) + std::ssize(target_.tokens) + 2 * examples());
}

Pairs open_pairs(const std::string& path, const PairOptions& pairs, const TextOptions& text,
                 const TableOptions& table, double held_out, const std::string& data_dir) {
  PODIUM_REQUIRE(text.context >= 2, ExitCode::kData, "data.context = ", text.context,
                 ": a sentence has a token and its end; use at least 2");
  const PairCells cells = read_pairs(path, pairs.target_path, text, table, data_dir);
  const bool apart = !text.held_out_path.empty();
  std::vector<bool> rest(static_cast<std::size_t>(cells.source.rows()));
  if (!apart) rest = held_out_rows(cells.source.rows(), held_out, table.split_seed);
  std::vector<bool> trained = rest;
  trained.flip();
  Pairs both{.tokenizer =
                 tokenizer_for_sentences(text.tokenizer, document_of(cells, trained), data_dir)};
  const Tokenizer& tokenizer = *both.tokenizer;
  const std::vector<Field> fields = pair_fields(
      text.context, std::max(text.vocabulary, tokenizer.vocabulary()), tokenizer.words());
  SentenceReader reader(tokenizer, text.context, text.too_long, true);
  const auto part = [&](const PairCells& of, const std::vector<bool>& wanted) {
    TokenRows source = reader.read(of.source, of.source_column, wanted);
    TokenRows target = reader.read(of.target, of.target_column, wanted);
    return std::make_shared<const PairSource>(of.source.file, fields, reader.end(),
                                              std::move(source), std::move(target), pairs.buckets);
  };
  both.train = part(cells, trained);
  if (apart) {
    const PairCells other =
        read_pairs(text.held_out_path, pairs.held_out_target_path, text, table, data_dir);
    both.held_out =
        part(other, std::vector<bool>(static_cast<std::size_t>(other.source.rows()), true));
  } else {
    both.held_out = part(cells, rest);
  }
  both.notes = reader.notes();
  return both;
}

}  // namespace podium
