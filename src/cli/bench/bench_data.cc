#include "cli/bench/bench_data.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/table.h"
#include "data/pictures/pictures.h"
#include "data/pictures/prepare/prepared_pictures.h"
#include "data/source/shuffle.h"
#include "train/run/run.h"

namespace podium {
namespace {

// Pictures of the first epoch, in their order, in memory.
class Pile final : public Records {
 public:
  Pile(const Records& all, const std::vector<std::uint32_t>& order, std::int64_t count)
      : classes_(all.classes()), class_names_(all.class_names()), origin_(all.origin()) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::int64_t>(order[static_cast<std::size_t>(i)]);
      files_.emplace_back();
      all.read(index, files_.back());
      labels_.push_back(all.label(index));
      names_.push_back(all.name(index));
    }
  }
  std::int64_t count() const override { return std::ssize(files_); }
  std::int32_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  std::string name(std::int64_t i) const override { return names_[static_cast<std::size_t>(i)]; }
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override { bytes = file(i); }
  Hash hash(StopToken) const override { return {}; }
  std::int64_t memory_bytes() const override { return 0; }
  std::int64_t classes() const override { return classes_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  const std::string& origin() const override { return origin_; }
  const std::vector<std::uint8_t>& file(std::int64_t i) const {
    return files_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<std::vector<std::uint8_t>> files_;
  std::vector<std::int32_t> labels_;
  std::int64_t classes_;
  std::vector<std::string> names_, class_names_;
  std::string origin_;
};

// Seconds that each of the stages takes for a picture: the stages take turns, a pile each, so that
// what else the machine does falls on all; the best of three turns.
std::vector<double> seconds_of(std::int64_t pictures,
                               const std::vector<std::function<void(std::int64_t)>>& stages) {
  std::vector<double> best(stages.size(), 1e9);
  for (int turn = 0; turn < 4; ++turn) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const auto start = Clock::now();
      for (std::int64_t i = 0; i < pictures; ++i) stages[stage](i);
      // The first turn is for caches and clocks.
      if (turn > 0)
        best[stage] = std::min(best[stage], seconds_since(start) / static_cast<double>(pictures));
    }
  }
  return best;
}

}  // namespace

ExitCode bench_data(const BenchDataArguments& arguments) {
  const Recipe recipe =
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir);
  PODIUM_REQUIRE(
      has_pictures(recipe), ExitCode::kUsage, "recipe ", recipe.name, " has data = \"", recipe.data,
      "\", whose examples are in memory; this command measures the decoding of pictures in files");
  const Pictures all =
      open_pictures(recipe.data, recipe.pictures, recipe.augment, arguments.data_dir);
  const auto pile = std::make_shared<const Pile>(all.train->records(),
                                                 epoch_order(recipe.seed, 0, all.train->count),
                                                 std::min(arguments.pictures, all.train->count));
  const CropOptions& crop = all.train->crop();
  const auto source = std::make_shared<const PictureSource>(pile, crop, BadPictures{}),
             keeping = std::make_shared<const PictureSource>(pile, crop, BadPictures{});
  keeping->keep_decoded(std::numeric_limits<std::int64_t>::max());
  const PreparedPictures prepared(source, {recipe.augment, recipe.normalise}),
      kept(keeping, {recipe.augment, recipe.normalise});

  PicturePixels pixels;
  ExamplePlan plan;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(3 * crop.size * crop.size));
  std::vector<float> image(bytes.size());
  std::int32_t label = 0;
  const auto key_of = [&](std::int64_t i) { return ExampleKey{recipe.seed, 0, i}; };
  std::int64_t coded = 0, whole = 0, part = 0;
  for (std::int64_t i = 0; i < pile->count(); ++i) {
    const ExampleKey key = key_of(i);
    const PictureReader reader(pile->file(i), pile->name(i));
    plan_example(reader.size(), crop, &key, plan);
    coded += std::ssize(pile->file(i));
    whole += reader.size().height * reader.size().width;
    part += plan.area.height * plan.area.width;
  }
  const std::vector<double> seconds = seconds_of(
      pile->count(), {[&](std::int64_t i) {
                        PictureReader reader(pile->file(i), pile->name(i));
                        reader.decode_all(reader.size().most_eighths(), pixels);
                      },
                      [&](std::int64_t i) {
                        const ExampleKey key = key_of(i);
                        PictureReader reader(pile->file(i), pile->name(i));
                        plan_example(reader.size(), crop, &key, plan);
                        reader.decode(plan.eighths, plan.area, pixels);
                      },
                      [&](std::int64_t i) {
                        const ExampleKey key = key_of(i);
                        make_example(pile->file(i), pile->name(i), crop, &key, bytes.data());
                      },
                      [&](std::int64_t i) {
                        const ExampleKey key = key_of(i);
                        prepared.read(i, &key, {image.data(), &label});
                      },
                      [&](std::int64_t i) {
                        const ExampleKey key = key_of(i);
                        kept.read(i, &key, {image.data(), &label});
                      }});
  const auto share = [&](std::size_t stage) { return seconds[1] / seconds[stage]; };
  const auto mean = [&](std::int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(pile->count());
  };
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"recipe", recipe.name},
                                         {"pictures", pile->count()},
                                         {"file_bytes", mean(coded)},
                                         {"pixels", mean(whole)},
                                         {"decoded_pixels", mean(part)},
                                         {"decoders", picture_decoders()},
                                         {"decode_whole_seconds", seconds[0]},
                                         {"decode_part_seconds", seconds[1]},
                                         {"resized_seconds", seconds[2]},
                                         {"example_seconds", seconds[3]},
                                         {"kept_example_seconds", seconds[4]},
                                         {"share_of_decoding", share(3)}};
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << recipe.name << ": " << count_text(pile->count(), "picture") << " of "
            << pile->origin() << ", a mean of " << fixed(mean(whole) / 1e3, 0)
            << " thousand pixels and " << fixed(mean(coded) / 1024, 0) << " KiB, of which "
            << fixed(mean(part) / 1e3, 0) << " thousand are decoded for " << crop.size << " x "
            << crop.size << "; " << picture_decoders() << "; one core\n";
  Table table({"WHAT", "PICTURES/S", "US", "DECODING'S SHARE"});
  const char* const names[] = {"decode the whole picture", "decode what the crop needs",
                               "and resize it", "and augment and normalise it",
                               "the same of pictures kept decoded"};
  for (std::size_t stage = 0; stage < seconds.size(); ++stage)
    table.add({names[stage], fixed(1 / seconds[stage], 0), fixed(1e6 * seconds[stage], 0),
               stage == 0 || stage == 4 ? "" : percent(share(stage))});
  std::cout << table.text();
  return ExitCode::kDone;
}

}  // namespace podium
