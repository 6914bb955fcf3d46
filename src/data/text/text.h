// Text: a file as tokens, and windows of them as examples.
//
// An example has the fields "tokens" and "next", i32 [context]: a window of the text, and the same
// one token later. The last share of the file is held out. Windows of the held-out part follow each
// other from its beginning, and the rest at its end, which is shorter than a window, is dropped. In
// training they follow each other, too, but from a place in the first window that is drawn for each
// epoch, so that every token sees other contexts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/source.h"
#include "data/text/text_options.h"

namespace podium {

// Turns text into tokens and back.
class Tokenizer {
 public:
  // Bytes: one for each value.
  Tokenizer() = default;
  // Characters: `characters` are UTF-8, sorted by their code points.
  explicit Tokenizer(std::vector<std::string> characters);
  // The characters of a text. Throws UserError(kData), which names `source` and the line, if the
  // text is not UTF-8 or has too many different characters.
  static Tokenizer of_characters(std::string_view text, const std::string& source);
  // Of a recipe's tokenizer and the words of the field "tokens".
  static Tokenizer of_words(const std::string& tokenizer, const std::vector<std::string>& words);

  std::int64_t vocabulary() const;
  // Of characters; none: tokens are bytes.
  const std::vector<std::string>& words() const { return words_; }
  // Throws UserError(kData), which names `source`, the line and the character, if the text has one
  // that is not in the vocabulary.
  std::vector<std::uint16_t> tokens_of(std::string_view text, const std::string& source) const;
  std::string text_of(std::int64_t token) const;

 private:
  std::vector<std::string> words_;
};

// A part of a text.
class TextSource : public Source {
 public:
  // Tokens [first, first + count) of `all`. With `shifts`, windows begin elsewhere in each epoch.
  TextSource(std::string file, std::shared_ptr<const std::vector<std::uint16_t>> all,
             std::int64_t first, std::int64_t count, const Tokenizer& tokenizer,
             std::int64_t context, bool shifts);

  std::vector<Field> fields() const override;
  std::int64_t examples() const override { return examples_; }
  const std::string& origin() const override { return file_; }
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const override;
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;

 private:
  std::string file_;
  std::shared_ptr<const std::vector<std::uint16_t>> all_;
  std::int64_t first_, count_, context_, vocabulary_, examples_;
  std::vector<std::string> words_;
  bool shifts_;
};

// The two parts of a text.
struct Text {
  std::shared_ptr<const TextSource> train, held_out;
};

// The file of `path`, which is looked up as the files of datasets are (data/datasets/dataset.h).
// Throws UserError(kData), which lists the places searched, if there is none.
std::string find_text(const std::string& path, const std::string& data_dir);

// Reads it. `held_out` is the share at its end that is evaluated. Throws UserError(kData), which
// names the file, if it is missing or empty, a part of it is shorter than a window, or it is not
// UTF-8 where tokens are characters.
Text open_text(const std::string& path, const TextOptions& options, double held_out,
               const std::string& data_dir);

}  // namespace podium
