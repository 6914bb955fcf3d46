// Tokenizers: text as whole numbers, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// A file of text.
struct Document {
  std::string source, text;
};

// Turns text into tokens and back. Threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer();

  // Tokens lie below it.
  virtual std::int64_t vocabulary() const = 0;
  // Calls add(token) for each token of the text. Throws UserError(kData), which names `source`, the
  // line and the character or word, if the text has one that is not in the vocabulary.
  virtual void encode(std::string_view text, const std::string& source,
                      const std::function<void(std::int32_t)>& add) const = 0;
  std::vector<std::int32_t> tokens_of(std::string_view text, const std::string& source) const;
  // The bytes of a token.
  virtual std::string text_of(std::int64_t token) const = 0;

  // The texts of all tokens, of a vocabulary that was made from the text of the training.
  virtual const std::vector<std::string>& words() const;
  // What stands between documents.
  virtual std::optional<std::int32_t> separator() const { return std::nullopt; }
  // Where a text may be cut so that its parts have the same tokens as the whole: the last such
  // place that is not after `most`; 0: there is none.
  virtual std::size_t cut(std::string_view text, std::size_t most) const = 0;
  // The files that it was read from.
  const std::vector<std::string>& files() const { return files_; }

 protected:
  std::vector<std::string> files_;
};

// Tokens are bytes.
std::shared_ptr<const Tokenizer> byte_tokenizer();
// Tokens are the characters of the texts, sorted by their code points. Throws UserError(kData),
// which names the file and the line, if it is not UTF-8.
std::shared_ptr<const Tokenizer> character_tokenizer(const std::vector<Document>& texts);
// Tokens are the words of the texts, which blanks separate, and `<eos>` for each end of a line; the
// most frequent first, and of equally frequent ones the smaller bytes. Where the text has `<unk>`,
// that is the token of any other word. Throws UserError(kData) if a text is not UTF-8.
std::shared_ptr<const Tokenizer> word_tokenizer(const std::vector<Document>& texts);
// Of a kind and the words() of an earlier one.
std::shared_ptr<const Tokenizer> tokenizer_of_words(const std::string& kind,
                                                    const std::vector<std::string>& words);

// Of a recipe's data.tokenizer: a path, or a kind whose vocabulary is that of the texts.
std::shared_ptr<const Tokenizer> tokenizer_for(const std::string& tokenizer,
                                               const std::vector<Document>& documents,
                                               const std::string& data_dir);
// The same for sentences, of which `lines` has one on each line: words that it lacks are <unk>.
std::shared_ptr<const Tokenizer> tokenizer_for_sentences(const std::string& tokenizer,
                                                         Document lines,
                                                         const std::string& data_dir);

// A tokenizer in files: a tokenizer.json of byte-level byte-pair encoding, a folder with one, a
// folder with GPT-2's encoder.json and vocab.bpe, SentencePiece's .model, or llama2.c's .bin
// (data/text/bpe.h, data/text/sentencepiece.h, data/text/scored_pieces.h). It is looked up as the
// files of datasets are. Throws UserError(kData), which names the file and the place in it, if it
// is damaged or of a kind that is not read.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path,
                                                const std::string& data_dir);

// What ends a sentence: the tokenizer's separator or, where it has none, the token of a line end.
std::int32_t end_token(const Tokenizer& tokenizer);

// "line 3 (byte 17)" of the text.
std::string place_in(std::string_view text, std::size_t at);

}  // namespace podium
