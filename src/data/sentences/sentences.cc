#include "data/sentences/sentences.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/words.h"
#include "data/sentences/sentence_reader.h"
#include "data/source/own_files.h"
#include "data/table/columns.h"

namespace podium {
namespace {

Cells read_found(const std::string& path, const std::string& data_dir) {
  return read_sentences(find_own_file(*own_file(kSentenceData), path, data_dir), true);
}

// The wanted texts, each on a line.
Document document_of(const Cells& cells, std::int64_t column, const std::vector<bool>& wanted) {
  Document all{cells.file, ""};
  for (std::int64_t row = 0; row < cells.rows(); ++row)
    if (wanted[static_cast<std::size_t>(row)]) all.text += cells.at(row, column) + "\n";
  return all;
}

std::vector<Field> sentence_fields(const TextOptions& options, const Tokenizer& tokenizer,
                                   const Column& target) {
  Field tokens{.name = "tokens",
               .dtype = DType::kI32,
               .shape = Shape{options.context},
               .unit = "sentence",
               .below = std::max(options.vocabulary, tokenizer.vocabulary()),
               .words = tokenizer.words()};
  Field label{.name = target.name,
              .dtype = DType::kI32,
              .below = std::ssize(target.words),
              .words = target.words,
              .target = true};
  if (label.name == tokens.name) label.name = kSentenceTarget;
  return {std::move(tokens), std::move(label)};
}

// The classes of another file's rows, as numbers of the words.
std::vector<std::int32_t> classes_in(const Cells& cells, std::int64_t column,
                                     const std::vector<std::string>& words) {
  std::vector<std::int32_t> classes;
  for (std::int64_t row = 0; row < cells.rows(); ++row) {
    require_cell(cells, row, column);
    const auto found = std::ranges::find(words, cells.at(row, column));
    if (found == words.end())
      refuse(cells, row, column,
             cat("no sentence to train on has the class \"", cells.at(row, column), "\"; it has ",
                 join_words(words)));
    classes.push_back(static_cast<std::int32_t>(found - words.begin()));
  }
  return classes;
}

std::vector<std::int32_t> chosen_of(const std::vector<std::int32_t>& all,
                                    const std::vector<bool>& wanted) {
  std::vector<std::int32_t> chosen;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (wanted[i]) chosen.push_back(all[i]);
  return chosen;
}

// Of sentences without a word that the network has seen, such as those in another script.
void warn_of_unknown(const TokenRows& rows, std::int64_t context, const Tokenizer& tokenizer,
                     const Cells& cells) {
  const auto unknown = std::ranges::find(tokenizer.words(), "<unk>");
  if (unknown == tokenizer.words().end()) return;
  const auto token = static_cast<std::int32_t>(unknown - tokenizer.words().begin());
  std::int64_t count = 0, first = 0;
  for (std::size_t row = 0; row < rows.lengths.size(); ++row) {
    const auto begin = rows.tokens.begin() + static_cast<std::int64_t>(row) * context;
    if (!std::all_of(begin, begin + rows.lengths[row], [&](auto one) { return one == token; }))
      continue;
    if (count++ == 0) first = cells.lines[row];
  }
  if (count > 0)
    log(LogLevel::kWarning,
        cat(cells.file, ": ", count_text(count, "text"), " of ",
            with_commas(std::ssize(rows.lengths)), ", the first in line ", first,
            ", without a word that the texts to train on had: what is predicted of them means "
            "nothing. Give texts in the language and script of the training"));
}

}  // namespace

std::int64_t text_column(const Cells& cells, const std::string& column) {
  const std::int64_t found = cells.column_of(column);
  PODIUM_REQUIRE(found >= 0, ExitCode::kData, cells.file, " has no column \"", column,
                 "\" with the sentences; name the one that has them, data.text_column=COLUMN, of ",
                 join_words(cells.names));
  return found;
}

std::int64_t label_column(const Cells& cells, const TableOptions& table, std::int64_t text) {
  if (!table.target.empty()) {
    require_known(cells, {table.target}, "data.target");
    PODIUM_REQUIRE(cells.column_of(table.target) != text, ExitCode::kData, cells.file, ": \"",
                   table.target,
                   "\" is the column of the texts; name another, which has "
                   "their classes: data.target=COLUMN");
    return cells.column_of(table.target);
  }
  PODIUM_REQUIRE(cells.columns() > 1, ExitCode::kData, cells.file,
                 " has no column beside that of the texts; one must have their classes");
  return cells.columns() - 1 == text ? cells.columns() - 2 : cells.columns() - 1;
}

Sentences open_sentences(const std::string& path, const TextOptions& text,
                         const TableOptions& table, double held_out, const std::string& data_dir) {
  const Cells cells = read_found(path, data_dir);
  const std::int64_t texts = text_column(cells, text.text_column);
  const Column target = column_of(cells, label_column(cells, table, texts), true);
  PODIUM_REQUIRE(target.words.size() > 1, ExitCode::kData, cells.file, ": the \"", target.name,
                 "\" of every sentence is \"", target.words[0],
                 "\", so there is nothing to predict; name another column: data.target=COLUMN");
  const bool apart = !text.held_out_path.empty();
  std::vector<bool> rest(static_cast<std::size_t>(cells.rows()));
  if (!apart) {
    rest = held_out_rows(cells.rows(), held_out, table.split_seed);
    require_trained(cells, target, rest);
  }
  std::vector<bool> trained = rest;
  trained.flip();
  Sentences both{.tokenizer = tokenizer_for_sentences(
                     text.tokenizer, document_of(cells, texts, trained), data_dir)};
  const std::vector<Field> fields = sentence_fields(text, *both.tokenizer, target);
  SentenceReader reader(*both.tokenizer, text.context, text.too_long, false);
  const auto source = [&](const Cells& from, std::vector<std::int32_t> tokens,
                          std::vector<std::int32_t> classes) {
    return std::make_shared<const RowSource>(from.file, fields, "token", std::move(tokens),
                                             std::move(classes));
  };
  both.train =
      source(cells, reader.read(cells, texts, trained).tokens, chosen_of(target.classes, trained));
  if (apart) {
    const Cells other = read_found(text.held_out_path, data_dir);
    const std::int64_t other_texts = text_column(other, text.text_column);
    require_known(other, {target.name}, "data.target");
    both.held_out = source(other, reader.read(other, other_texts).tokens,
                           classes_in(other, other.column_of(target.name), target.words));
  } else {
    both.held_out =
        source(cells, reader.read(cells, texts, rest).tokens, chosen_of(target.classes, rest));
  }
  both.notes = reader.notes();
  return both;
}

RowSource sentences_to_predict(const Cells& cells, const TextOptions& text,
                               const std::vector<Field>& fields, const Tokenizer& tokenizer) {
  const Field* const tokens = find_field(fields, "tokens");
  PODIUM_REQUIRE(tokens != nullptr && tokens->shape.rank() == 1, ExitCode::kData,
                 "the run is not one on sentences, but on ", to_text(fields));
  SentenceReader reader(tokenizer, tokens->shape[0], text.too_long, false);
  TokenRows rows = reader.read(cells, text_column(cells, text.text_column));
  warn_of_unknown(rows, tokens->shape[0], tokenizer, cells);
  return {cells.file, {*tokens}, "token", std::move(rows.tokens), {}};
}

}  // namespace podium
