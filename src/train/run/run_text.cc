#include "train/run/run_text.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "data/text/text.h"
#include "nn/models.h"
#include "train/plugin/plugin.h"
#include "train/run/run_folder.h"

namespace podium {

std::shared_ptr<const Tokenizer> tokenizer_of(const Recipe& recipe, std::span<const Field> fields) {
  if (is_tokenizer_path(recipe.text.tokenizer)) return open_tokenizer(recipe.text.tokenizer, "");
  const Field* const tokens = find_field(fields, "tokens");
  const bool is_known = recipe.text.tokenizer != kByteTokens || tokens == nullptr ||
                        tokens->below == 256 || recipe.text.vocabulary == 0;
  PODIUM_REQUIRE(is_known, ExitCode::kUsage, "the run of recipe ", recipe.name,
                 " was trained on shards of tokens whose tokenizer is not known; train with "
                 "data.tokenizer=PATH, or put it into their folder, as `tokenizer`");
  return tokenizer_of_words(recipe.text.tokenizer,
                            tokens != nullptr ? tokens->words : std::vector<std::string>());
}

namespace {

// What the replicas of training carry is of their rows; an evaluation begins from zeros.
void forget_carried(Checkpoint& checkpoint) {
  checkpoint.metadata.erase(kCarriedHashKey);
  for (NamedTensor& carried : checkpoint.tensors) {
    if (!carried.name.starts_with(kCarriedPrefix)) continue;
    const auto& shape = carried.tensor.shape().extents();
    std::vector<std::int64_t> extents(shape.begin(), shape.end());
    extents[0] = extents[1] = 1;  // replicas, rows
    carried.tensor = Tensor(carried.tensor.dtype(), Shape(std::move(extents)));
  }
}

}  // namespace

LoadedRun load_run_on_text(const std::filesystem::path& folder, const std::string& text,
                           const std::string& data_dir, const Placement& placement,
                           const std::string& step) {
  require_run(folder);
  LoadedRun loaded;
  loaded.recipe = read_run_recipe(folder);
  Recipe& recipe = loaded.recipe;
  PODIUM_REQUIRE(has_text(recipe), ExitCode::kUsage, "the run of recipe ", recipe.name,
                 " was trained on data = \"", recipe.data,
                 "\"; only a network that was trained on text is evaluated on one");
  Checkpoint checkpoint = checkpoint_of(folder, step);
  const std::vector<Field> fields = fields_of(checkpoint);
  const Field* const tokens = find_field(fields, "tokens");
  PODIUM_REQUIRE(tokens != nullptr, ExitCode::kData, folder.string(),
                 ": its checkpoint does not say which tokens it has, because an older Podium wrote "
                 "it");
  // Which examples a step would have does not matter here; a short text has few.
  recipe.batch = recipe.replicas = 1;
  TextOptions options = recipe.text;
  options.vocabulary = tokens->below;
  const auto set = open_whole_text(text, *tokenizer_of(recipe, fields), options, data_dir);
  loaded.trainer = std::make_unique<Trainer>(recipe, model_of(recipe), set, set, placement);
  forget_carried(checkpoint);
  loaded.trainer->restore(checkpoint);
  return loaded;
}

std::int64_t predicted_bytes(const Source& set, const Tokenizer& tokenizer) {
  const auto context = static_cast<std::size_t>(set.fields().front().shape[0]);
  std::vector<std::int32_t> tokens(context), next(context);
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < set.examples(); ++i) {
    set.read(i, nullptr, {tokens.data(), next.data()});
    for (const std::int32_t token : next)
      if (token < tokenizer.vocabulary()) bytes += std::ssize(tokenizer.text_of(token));
  }
  return bytes;
}

}  // namespace podium
