// Runs on text: their tokenizer, and how well they predict other texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "data/text/tokenizer.h"
#include "train/run/run.h"

namespace podium {

// The tokenizer of a recipe whose data are text: that of its files, or of the words of its field
// "tokens". Throws UserError: kData if its files are missing or damaged; kUsage if it was never
// known, as of shards of tokens.
std::shared_ptr<const Tokenizer> tokenizer_of(const Recipe& recipe, std::span<const Field> fields);

// A run at a checkpoint, to be evaluated on the whole of a text, a folder of texts or shards, with
// the run's own tokenizer and context. Throws UserError: kUsage if the run was not trained on text;
// kData, which names the file, if it does not fit the tokenizer or is shorter than a window.
LoadedRun load_run_on_text(const std::filesystem::path& folder, const std::string& text,
                           const std::string& data_dir, const Placement& placement,
                           const std::string& step = "");

// The bytes of the tokens that are predicted in an evaluation of `set`. Reads all of it.
std::int64_t predicted_bytes(const Source& set, const Tokenizer& tokenizer);

}  // namespace podium
