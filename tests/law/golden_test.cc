// Golden hashes: the first steps of every recipe, and of small variants that need no files, have
// the hashes that tests/law/golden_hashes.txt lists, on every vector target of every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "backend/cpu/kernels/targets.h"
#include "base/numerics/hash.h"
#include "base/scratch_test_util.h"
#include "data/datasets/dataset.h"
#include "data/source/own_files.h"
#include "files/archive.h"
#include "law_util.h"
#include "nn/models.h"
#include "train/run/run.h"

namespace podium {
namespace {

constexpr const char* kFile = "tests/law/golden_hashes.txt";  // ctest starts in the tree's root
constexpr const char* kHeader =
    "# The parameter hash after each of the first steps: RECIPE [OVERRIDE...] STEP HASH\n"
    "# A hash that changes though its recipe did not means that the numerical contract changed: "
    "that\n"
    "# is a commit of its own, which says why, raises the contract's number in "
    "src/base/numerics/contract.h,\n"
    "# and brings this file along, written anew by\n"
    "#   PODIUM_WRITE_GOLDEN=1 build/tests/law/law_test --gtest_filter='*Golden*'\n"
    "# in the root of the tree.\n";

// The recipe that is run on the photographs of this archive, where the folders of datasets have it.
constexpr const char* kPhotographRecipe = "imagenette-resnet18";
constexpr const char* kPhotographArchive = "imagenette/imagenette.tar";

struct Case {
  std::string name;               // of the test
  std::string recipe, overrides;  // separated by blanks
  std::string text() const { return overrides.empty() ? recipe : cat(recipe, " ", overrides); }
};
void PrintTo(const Case& golden, std::ostream* out) { *out << golden.text(); }

// Of large networks fewer examples a step, and of photographs smaller ones, which take the same
// way through the program.
std::string fewer_images(const std::string& recipe) {
  const std::int64_t batch = read_recipe(find_recipe(recipe)).batch;
  if (recipe == kPhotographRecipe) return "batch=10 replicas=2 data.size=64";
  if (recipe == "shakespeare-char") return "batch=4 replicas=2";
  // Its subwords are made where it is run.
  if (recipe == "multi30k") return "batch=8 replicas=2 data.tokenizer=words";
  if (!recipe.starts_with("cifar10-")) return "";
  return batch <= 128 ? "batch=68" : "batch=68 replicas=2";
}

// Every recipe; then what the recipes leave out: one replica, trees that are no powers of
// two, the other optimizer, decay, smoothing, augmentation, normalisation, BF16.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const std::string& recipe : recipe_names()) {
    std::string name = recipe;
    std::ranges::replace(name, '-', '_');
    list.push_back({name, recipe, fewer_images(recipe)});
  }
  const std::string small = "train_examples=480 test_examples=32 ";
  list.push_back({"one_replica", "glyphs", small + "batch=32 replicas=1"});
  list.push_back({"three_replicas", "glyphs", small + "batch=96 replicas=3"});
  list.push_back({"seven_replicas_sgd", "glyphs",
                  small + "batch=77 replicas=7 seed=3 label_smoothing=0.1 optimizer.name=sgd "
                          "optimizer.learning_rate=0.1 optimizer.momentum=0.9 "
                          "optimizer.nesterov=true optimizer.weight_decay=0.01 "
                          "optimizer.decay=per-replica schedule.name=constant"});
  list.push_back({"five_replicas_augmented", "glyphs",
                  small + "batch=160 replicas=5 optimizer.weight_decay=0.01 augment.shift=2 "
                          "augment.rotate_degrees=10 augment.scale=0.1 augment.shear=0.1 "
                          "augment.elastic=1 augment.cutout=6"});
  list.push_back({"five_replicas_standardised", "glyphs",
                  small + "batch=160 replicas=5 normalise.name=per-image augment.shift=3 "
                          "augment.padding=reflect augment.flip=alternating augment.cutout=6"});
  list.push_back({"three_replicas_bf16", "glyphs", small + "batch=96 replicas=3 precision=bf16"});
  list.push_back({"davidnet_bf16", "cifar10-davidnet", "batch=68 replicas=2 precision=bf16"});
  return list;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Hashes by case, steps in order.
using Golden = std::map<std::string, std::vector<std::string>>;

Golden read_golden() {
  Golden golden;
  std::ifstream file(kFile);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t hash = line.rfind(' '), step = line.rfind(' ', hash - 1);
    std::vector<std::string>& hashes = golden[line.substr(0, step)];
    hashes.push_back(line.substr(hash + 1));
    EXPECT_EQ(line.substr(step + 1, hash - step - 1), std::to_string(hashes.size())) << line;
  }
  return golden;
}

void write_golden(const Golden& golden) {
  std::ofstream file(kFile);
  file << kHeader;
  for (const auto& [name, hashes] : golden) {
    for (std::size_t i = 0; i < hashes.size(); ++i)
      file << name << ' ' << i + 1 << ' ' << hashes[i] << '\n';
  }
}

// Its dataset where the search order finds it, or where it needs no files.
bool has_data(const Recipe& recipe) {
  if (own_file(recipe.data) != nullptr) {
    for (const std::string& folder : dataset_folders(""))
      if (std::filesystem::is_regular_file(std::filesystem::path(folder) / recipe.pictures.path))
        return true;
    return false;
  }
  const DatasetInfo& info = find_dataset(recipe.data);
  return info.files.empty() || locate_files(info, "").has_value();
}

std::optional<std::string> find_photographs() {
  for (const std::string& folder : dataset_folders("")) {
    std::string archive = (std::filesystem::path(folder) / kPhotographArchive).string();
    if (std::filesystem::is_regular_file(archive)) return archive;
  }
  return std::nullopt;
}

// The archive's folder of photographs for training and for evaluation.
std::string unpack_photographs(const std::string& archive, const TestFolder& to) {
  const std::string part = "imagenette/";
  read_archive(archive, "it holds the photographs of the tests",
               [&](const std::string& member, ByteSource& bytes) {
                 if (!member.starts_with(part)) return true;
                 std::string text;
                 std::vector<std::uint8_t> piece(std::size_t{1} << 16);
                 while (const std::size_t read = bytes.read(piece))
                   text.append(reinterpret_cast<const char*>(piece.data()), read);
                 const std::filesystem::path file = to.path() / member;
                 std::filesystem::create_directories(file.parent_path());
                 put_text(file, text);
                 return true;
               });
  return (to.path() / part).string();
}

std::vector<std::string> hashes_of(const Recipe& recipe, const RunData& data, int steps) {
  Trainer trainer(recipe, model_of(recipe), data.train, data.held_out,
                  Placement{.backend = law_backend()});
  std::vector<std::string> hashes;
  for (int i = 0; i < steps; ++i) hashes.push_back(hash_text(trainer.step({.hash = true}).hash));
  return hashes;
}

class GoldenHashes : public testing::TestWithParam<Case> {
  void TearDown() override { cpu::set_vector_target(cpu::vector_targets().front()); }
};

TEST_P(GoldenHashes, of_the_first_steps_are_those_of_the_file) {
  const Case& golden_case = GetParam();
  Recipe recipe = read_recipe(find_recipe(golden_case.recipe), words_of(golden_case.overrides));
  const TestFolder photographs;
  if (has_pictures(recipe)) {
    const auto archive =
        golden_case.recipe == kPhotographRecipe ? find_photographs() : std::nullopt;
    if (!archive)
      GTEST_SKIP() << golden_case.text() << ": its photographs are not here"
                   << (golden_case.recipe == kPhotographRecipe ? cat(": ", kPhotographArchive)
                                                               : std::string());
    ::setenv("XDG_CACHE_HOME", (photographs / "cache").c_str(), 1);  // of the index
    recipe.pictures.path = unpack_photographs(*archive, photographs);
  } else if (!has_data(recipe)) {
    GTEST_SKIP() << golden_case.text() << ": the files of " << recipe.data
                 << " are not here; podium data fetch " << recipe.data << " gets them";
  }
  if (precision_of(recipe).bf16 && !computes_amx())
    GTEST_SKIP() << golden_case.text() << ": the hashes are those of the order amx";
  const bool drawn = !has_files(recipe) && find_dataset(recipe.data).files.empty();
  const int steps = drawn ? 5 : 3;
  const RunData data = load_data(recipe, "");
  const char* write = std::getenv("PODIUM_WRITE_GOLDEN");
  if (write != nullptr && std::string(write) == "1") {
    Golden golden = read_golden();
    golden[golden_case.text()] = hashes_of(recipe, data, steps);
    write_golden(golden);
  }
  const std::vector<std::string> expected = read_golden()[golden_case.text()];
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    EXPECT_EQ(hashes_of(recipe, data, steps), expected)
        << golden_case.text() << " on " << target << ": not the hashes of " << kFile
        << ".\nIf nothing was meant to change the results, this is a bug. If the contract was "
           "changed on purpose (raise its number in src/base/numerics/contract.h), or a recipe is "
           "new, "
           "write them anew:\n"
           "  PODIUM_WRITE_GOLDEN=1 build/tests/law/law_test --gtest_filter='*Golden*'\n"
           "and say why in the commit.";
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, GoldenHashes, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

// Lines of recipes that are gone, or were renamed, would be looked at by nobody.
TEST(GoldenFile, lists_no_case_that_is_not_run) {
  Golden golden = read_golden();
  for (const Case& known : cases()) golden.erase(known.text());
  for (const auto& [name, hashes] : golden) ADD_FAILURE() << kFile << " lists " << name;
}

}  // namespace
}  // namespace podium
