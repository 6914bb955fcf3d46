// Sentences, each of a class (docs/sequences.md): lines, the rows of a table, or JSON objects.
//
// An example has the fields "tokens", i32 [context], and the target, i32, by its column's name:
// the number of a class. A sentence that is shorter than the context ends in the token between
// documents or, where the tokenizer has none, that of a line end, as often as it takes. The words
// of the sentences to train on are the vocabulary, and <unk>, which stands for any other word.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/row_source.h"
#include "data/table/cells.h"
#include "data/table/table_options.h"
#include "data/text/text_options.h"
#include "data/text/tokenizer.h"

namespace podium {

// The columns of sentences in lines.
inline constexpr const char *kSentenceColumn = "text", *kSentenceTarget = "label";

struct Sentences {
  std::shared_ptr<const RowSource> train, held_out;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> notes;  // of sentences that are cut
};

// A file as columns: .csv and .tsv by data/table/cells.h; of .jsonl an object for each line, whose
// names are those of the first; of any other, lines, each the label, a blank and the text (without
// labels: the text alone). What is not UTF-8 is read as Latin-1 (data/text/utf8.h). Throws
// UserError(kData), which names file, line and remedy, if it is damaged or has no sentence.
Cells read_sentences(const std::string& file, bool with_labels);
// The same of its contents.
Cells parse_sentences(std::string_view bytes, const std::string& file, bool with_labels);

// The column of the texts, and that of their classes: the one that the recipe names, or the last
// beside the texts. Throw UserError(kData), which lists the columns, if there is none.
std::int64_t text_column(const Cells& cells, const std::string& column);
std::int64_t label_column(const Cells& cells, const TableOptions& table, std::int64_t text);

// The two parts. What is evaluated is the file `text.held_out_path`, or where none is named a share
// of the rows, drawn as those of a table. Throws UserError(kData), which names file, line and
// column, if a sentence is empty or, unless it is cut, longer than the context; if a label is
// missing or has nothing to train on; or if there is one class alone.
Sentences open_sentences(const std::string& path, const TextOptions& text,
                         const TableOptions& table, double held_out, const std::string& data_dir);

// Rows without labels, for a network whose data had these fields.
RowSource sentences_to_predict(const Cells& cells, const TextOptions& text,
                               const std::vector<Field>& fields, const Tokenizer& tokenizer);

}  // namespace podium
