// Text: files as tokens, and windows of them as examples.
//
// An example has the fields "tokens" and "next", i32 [context]: a window of the text, and the same
// one token later. The last share is held out, or files of tokens whose names say so. Windows of
// the held-out part follow each other from its beginning, and the rest at its end, which is shorter
// than a window, is dropped. In training they follow each other, too, but from a place in the first
// window that is drawn for each epoch, so that every token sees other contexts; where they are
// visited as streams, from the first token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/source/source.h"
#include "data/text/text_options.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"

namespace podium {

// The file or folder of `path`, which is looked up as the files of datasets are
// (data/datasets/dataset.h). Throws UserError(kData), which lists the places searched, if there is
// none.
std::string find_text(const std::string& path, const std::string& data_dir);

// The fields of a window, "tokens" and "next".
std::vector<Field> text_fields(std::int64_t context, std::int64_t vocabulary,
                               const std::vector<std::string>& words = {});

// A part of a text.
class TextSource : public Source {
 public:
  // Where its tokens come from. With `shifts`, windows begin elsewhere in each epoch; with
  // `streams`, rows of a batch go on in the next one.
  struct Part {
    std::string origin;
    std::shared_ptr<const Tokens> all;
    std::int64_t first = 0, count = 0;  // of `all`
    std::int64_t vocabulary = 0;
    std::vector<std::string> words = {};  // Tokenizer::words()
    std::int64_t context = 0;
    bool shifts = false, streams = false;
  };
  explicit TextSource(Part part);

  std::vector<Field> fields() const override;
  std::int64_t examples() const override { return examples_; }
  const std::string& origin() const override { return part_.origin; }
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const override;
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;
  VisitOrder order() const override;

 private:
  Part part_;
  std::int64_t examples_;
};

// The two parts of a text.
struct Text {
  std::shared_ptr<const TextSource> train, held_out;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: shards of an unknown one
};

// Opens what find_text() finds: a text; a folder of texts, each a document, by name; or shards of
// tokens (data/text/tokens.h), a file or a folder of them, of which those with `val` in their name
// are held out. A folder of shards may have its tokenizer in `tokenizer`. What is evaluated is the
// text of options.held_out_path, by the tokenizer of the text to train on, or where no file says so
// the share `held_out` at the end. Throws UserError(kData), which names the
// file, if it is missing or empty, a part of it is shorter than a window, or it does not fit the
// tokenizer.
Text open_text(const std::string& path, const TextOptions& options, double held_out,
               const std::string& data_dir);

// All of it, as a held-out part, by a tokenizer, with a vocabulary of options.vocabulary if the
// tokenizer's is smaller. Throws UserError(kData) likewise.
std::shared_ptr<const TextSource> open_whole_text(const std::string& path,
                                                  const Tokenizer& tokenizer,
                                                  const TextOptions& options,
                                                  const std::string& data_dir);

}  // namespace podium
