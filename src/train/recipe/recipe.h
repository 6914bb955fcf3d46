// A recipe: the complete mathematics of a run. It is read from a TOML file, changed by `key=value`
// overrides and checked completely (all errors at once, each with its position and the nearest
// known name). to_toml() writes it back resolved, every key with its value.
// docs/recipes.md describes each key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/numerics/precision.h"
#include "data/pairs/pair_options.h"
#include "data/pictures/picture_options.h"
#include "data/pictures/prepare/augment.h"
#include "data/pictures/prepare/normalise.h"
#include "data/sounds/sound_options.h"
#include "data/table/table_options.h"
#include "data/text/text_options.h"
#include "nn/models.h"
#include "optim/optimizer.h"

namespace podium {

// When and how the held-out set is evaluated.
struct EvaluationOptions {
  std::int64_t every_epochs = 1;  // 0: only at the end
  std::int64_t batch = 0;         // 0: chosen so that evaluation needs no more memory than training
  std::int64_t views =
      1;  // of each image (base/numerics/view.h); the network's outputs are averaged
  std::int64_t streams = 1;       // where a model carries values: parts that are each read in order
  std::int64_t translations = 0;  // of pairs: how many are translated
};

// Parameters, selected by name, that have their own optimizer or are not trained.
struct OptimizerGroup {
  std::vector<std::string> parameters;  // patterns of names (base/words.h)
  bool frozen = false;
  OptimizerOptions optimizer;
  bool operator==(const OptimizerGroup&) const = default;
};
inline constexpr std::size_t kMostOptimizerGroups = 64;

// The source of initial values (train/run/initial.h); unused if `from` is empty.
struct InitOptions {
  std::string from;                // a run's folder, one of its checkpoints or a safetensors file
  std::string hash;                // of its contents; empty: not known yet
  std::vector<std::string> map;    // "old*=new*": how its tensors are renamed
  std::vector<std::string> fresh;  // patterns of names that keep the values drawn by the recipe
  bool operator==(const InitOptions&) const = default;
};

// The keys of a recipe, with their defaults.
struct Recipe {
  std::string name;         // the file's name, without folder and extension
  std::string description;  // one line, for `podium recipes`
  std::string model;
  NetworkOptions network;  // only for models that have more than one size
  std::string data;        // a dataset, kOwnData or, with `pictures`, kFolderData
  // [data]; only for pictures in files, `path` and `held_out` also of other files.
  PictureOptions pictures;
  TextOptions text;  // [data]; only for text, sentences, pairs and sounds
  // [data]; only for tables, `target` and `split_seed` also of sentences, the latter of sounds.
  TableOptions table;
  SoundOptions sounds;  // [data]; only for sounds
  PairOptions pairs;    // [data]; only for pairs
  // 0: the default, or all there are. A run records them for data in files.
  std::int64_t train_examples = 0, test_examples = 0;
  // The last `validation` training examples are held out and evaluated instead of the test set; 0:
  // none.
  std::int64_t validation = 0;
  std::int64_t batch = 0;     // the global batch
  std::int64_t replicas = 1;  // divides the batch
  std::uint64_t seed = 0;
  // Exactly one of the two is given; the other is 0.
  std::int64_t epochs = 0, steps = 0;
  std::string precision = "fp32";
  std::string bf16_order;  // of the products' sums; empty: the first device of the run decides
  float label_smoothing = 0;
  float clip_norm = 0;         // limit of the norm of all gradients together; 0: no clipping
  OptimizerOptions optimizer;  // for the parameters that are in no group
  // A parameter belongs to the first group with a pattern that matches its name.
  std::vector<OptimizerGroup> optimizer_groups;
  ScheduleOptions schedule;
  InitOptions init;
  NormaliseOptions normalise;
  AugmentOptions augment;
  EvaluationOptions evaluation;
  std::int64_t checkpoint_every_steps = 0;  // 0: once per epoch
  std::int64_t checkpoints_kept = 3;
  bool keep_best = false;              // also keep the checkpoint of the best evaluation
  std::int64_t hash_every_steps = 1;   // 0: only at the end
  std::int64_t audit_every_steps = 0;  // 0: never
  std::string audit_backend = "none";
  std::string audit_then = "stop";
  bool witness = false;
  std::int64_t log_every_steps = 0;  // metrics and TensorBoard; 0: about 20 times per epoch
  bool histograms = false;           // of parameters, for TensorBoard
  std::string recompute = "none";    // or "blocks": less memory, more work
};

// Resolves RECIPE of a command line: the path of a TOML file, or a name in the recipes folder
// ($PODIUM_RECIPES, recipes/ in the current folder or beside the program, share/podium/recipes).
// Throws UserError(kUsage), which names the nearest known recipe, if there is none.
std::filesystem::path find_recipe(const std::string& name_or_path);
// The names in the recipes folder, sorted.
std::vector<std::string> recipe_names();

// Which models a recipe may name: only registered ones; any, for callers that have the model
// themselves; any, and any data (a plugin's), for callers that only read what a run has recorded.
enum class ModelNames { kRegistered, kAny, kRecorded };

// Overrides are `dotted.key=value`, with the value in TOML syntax (strings may be written without
// quotes). All errors are collected into one UserError, one line each.
Recipe read_recipe(const std::filesystem::path& file,
                   const std::vector<std::string>& overrides = {},
                   ModelNames models = ModelNames::kRegistered);
// The same from text; errors name `source`.
Recipe parse_recipe(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides = {},
                    ModelNames models = ModelNames::kRegistered);

// Whether `data` names pictures in files.
inline bool has_pictures(const Recipe& recipe) { return is_picture_data(recipe.data); }
// Whether it names a text.
inline bool has_text(const Recipe& recipe) { return recipe.data == kTextData; }
// Whether it names a table.
inline bool has_table(const Recipe& recipe) { return recipe.data == kTableData; }
// Whether it names sentences.
inline bool has_sentences(const Recipe& recipe) { return recipe.data == kSentenceData; }
// Whether it names pairs of sentences.
inline bool has_pairs(const Recipe& recipe) { return recipe.data == kPairData; }
// Whether it names sounds.
inline bool has_sounds(const Recipe& recipe) { return recipe.data == kSoundData; }
// Whether it names what becomes rows in memory, whose shape is known when it has been read.
inline bool has_rows(const Recipe& recipe) {
  return has_table(recipe) || has_sentences(recipe) || has_pairs(recipe) || has_sounds(recipe);
}
// Whether it names files that no dataset knows: how many examples they have is found out.
bool has_files(const Recipe& recipe);

// The network that it names. Throws UserError(kUsage) if there is none of this name and size.
Model model_of(const Recipe& recipe);

// The recipe for RECIPE of a command line: that of find_recipe(), or for "folder:PATH" and its like
// (data/pictures/picture_options.h) the recipe `pictures` on these, named after the folder, with a
// batch of at most the number of pictures; for "text:FILE" the recipe `text` on it,
// and for "table:FILE", "sentences:FILE", "pairs:FILE" and "sounds:FOLDER" `table`, `sentences`,
// `pairs` and `sounds`, named likewise.
Recipe read_named_recipe(const std::string& name, const std::vector<std::string>& overrides = {},
                         const std::string& data_dir = "");

// As `precision` and `bf16_order` say; where no device has decided yet, in the order of AMX.
Precision precision_of(const Recipe& recipe);

// The training examples without those held out; the whole steps of an epoch; the steps of the run.
// For data in files they are 0 until a run has counted the examples.
std::int64_t training_examples(const Recipe& recipe);
std::int64_t steps_per_epoch(const Recipe& recipe);
std::int64_t total_steps(const Recipe& recipe);

// The resolved recipe: every key, in a fixed order. parse_recipe() of it returns the same recipe.
std::string to_toml(const Recipe& recipe);

// A resolved recipe that an older Podium may have written, as this version writes it: new keys have
// their defaults. Returns the text itself if it is not a recipe.
std::string resolved_anew(const std::string& text);
// Whether a run of the resolved recipe `own` goes on as one of `text`: they are the same but for
// - where the pictures lie (data.path), as they are known by their contents;
// - what happens to damaged ones. A run that has stopped at each (data.on_error) has met none so
//   far, and one whose limit (data.skip_limit) is another has not met as many: up to here, each has
//   computed what a run that skips would have computed.
bool goes_on_as(const std::string& own, const std::string& text);

}  // namespace podium
