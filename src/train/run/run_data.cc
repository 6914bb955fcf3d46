// The sets that a recipe's data are.
#include "train/run/run_data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "data/datasets/dataset.h"
#include "data/pictures/pictures.h"
#include "data/text/text.h"
#include "train/loop/trainer.h"
#include "train/recipe/recipe_keys.h"
#include "train/run/memory.h"

namespace podium {

RunData load_data(const Recipe& recipe, const std::string& data_dir, const IndexOptions& how) {
  if (has_pictures(recipe)) {
    const Pictures pictures =
        open_pictures(recipe.data, recipe.pictures, recipe.augment, data_dir, how);
    return {pictures.train, pictures.test, pictures.notes};
  }
  if (has_text(recipe)) {
    const Text text =
        open_text(recipe.pictures.path, recipe.text, recipe.pictures.held_out, data_dir);
    return {text.train, text.held_out};
  }
  const DatasetOptions options{.data_dir = data_dir,
                               .seed = 0,
                               .train_examples = recipe.train_examples,
                               .test_examples = recipe.test_examples,
                               .stop = how.stop};
  auto train = std::make_shared<ImageSet>(load_dataset(recipe.data, Split::kTrain, options));
  if (recipe.validation == 0)
    return {train,
            std::make_shared<const ImageSet>(load_dataset(recipe.data, Split::kTest, options))};
  PODIUM_REQUIRE(recipe.validation < train->count, ExitCode::kUsage,
                 "validation = ", recipe.validation, ": the training set has ", train->count,
                 " examples");
  const std::int64_t kept = train->count - recipe.validation;
  auto held_out = std::make_shared<const ImageSet>(part_of(*train, kept, recipe.validation));
  // Shortened in place: a copy would need the set's memory twice.
  train->count = kept;
  train->pixels.resize(static_cast<std::size_t>(kept * train->image_bytes()));
  train->labels.resize(static_cast<std::size_t>(kept));
  return {train, held_out};
}

RunData load_data(const Recipe& recipe, const std::string& data_dir) {
  // A picture that was repaired in its place is read anew.
  return load_data(recipe, data_dir, {.check_files = true});
}

namespace {

void require_stated(const Recipe& recipe, const RunData& data) {
  std::string differences, remedy;
  const auto compare = [&](const char* key, std::int64_t stated, std::int64_t found,
                           const char* what) {
    if (stated == 0 || stated == found) return;
    differences +=
        cat(differences.empty() ? "" : ", ", found, " ", what, " (`", key, "` = ", stated, ")");
    remedy += cat(" ", key, "=", found);
  };
  compare("train_examples", recipe.train_examples, data.train->examples(), "to train on");
  compare("test_examples", recipe.test_examples, data.held_out->examples(), "to evaluate");
  compare("data.classes", recipe.pictures.classes, target_of(data.train->fields())->below,
          "classes");
  PODIUM_REQUIRE(differences.empty(), ExitCode::kData, data.train->origin(), ": the ",
                 has_text(recipe) ? "text is not the one" : "pictures are not those",
                 " that the recipe states: ", differences, ". Name the ",
                 has_text(recipe) ? "file that has it (data.path=BOOK.txt), or"
                                  : "folder that has them (data.path=PHOTOS), or",
                 " train on these with", remedy,
                 "; a run that has begun goes on only with those that it had");
}

}  // namespace

void require_decodable(const RunData& data, bool begun, StopToken stop) {
  const auto* const pictures = dynamic_cast<const PictureSource*>(data.held_out.get());
  if (pictures == nullptr) return;
  const std::vector<std::string> problems =
      pictures->records().decoding_problems(pictures->crop(), stop);
  if (problems.empty()) return;
  constexpr std::size_t kShown = 10;
  const bool one = problems.size() == 1;
  std::string text = cat(pictures->source, ": ",
                         count_text(std::ssize(problems), "picture of the evaluation set",
                                    "pictures of the evaluation set"),
                         " cannot be decoded, and evaluation skips none:");
  for (std::size_t i = 0; i < std::min(problems.size(), kShown); ++i)
    text += cat("\n  ", problems[i]);
  if (problems.size() > kShown) text += cat("\n  and ", problems.size() - kShown, " more");
  throw UserError(
      cat(text, "\n",
          begun ? cat("Repair ", one ? "it" : "them", ", or put ",
                      one ? "another picture of its name in its" : "others of their names in their",
                      " place, and give the same command again: the run goes on and says so. "
                      "Without ",
                      one ? "it" : "them", " it is another run: --fresh or another --out")
                : cat("Repair or remove ", one ? "it" : "them", " and give the same command again"),
          "; `podium data verify` lists all such"),
      ExitCode::kData);
}

void require_outside(const std::filesystem::path& out, const Recipe& recipe,
                     const std::string& data_dir) {
  if (recipe.data != kFolderData) return;
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(find_pictures(recipe.pictures.path, data_dir), error),
                 folder = fs::weakly_canonical(fs::absolute(out, error), error);
  const auto [end, unused] = std::ranges::mismatch(root, folder);
  PODIUM_REQUIRE(end != root.end(), ExitCode::kUsage, "--out ", out.string(),
                 " lies in the folder of the pictures, ", root.string(),
                 ", whose folders are classes; choose one outside of it");
}

void require_decoding_memory(const RunData& data, std::int64_t rest, std::int64_t threads,
                             std::int64_t limit) {
  std::int64_t bytes = 0;
  for (const Source* set : {data.train.get(), data.held_out.get()})
    if (const auto* const pictures = dynamic_cast<const PictureSource*>(set))
      bytes = std::max(bytes, pictures->records().decoding_bytes());
  PODIUM_REQUIRE(bytes == 0 || rest + threads * bytes <= limit, ExitCode::kMemory,
                 "this run needs ", format_bytes(rest), " and, to decode its largest picture, ",
                 format_bytes(bytes), " on each of ", count_text(threads, "thread"),
                 "; the limit is ", format_bytes(limit),
                 "; raise the limit, make its largest pictures smaller, or use fewer cores, as "
                 "`taskset -c 0 podium train` does");
}

Recipe with_counts(Recipe recipe, const RunData& data) {
  if (!has_files(recipe)) return recipe;
  data.train->require_usable("the training set");
  require_stated(recipe, data);
  recipe.train_examples = data.train->examples();
  recipe.test_examples = data.held_out->examples();
  check_counts(recipe);
  return recipe;
}

}  // namespace podium
