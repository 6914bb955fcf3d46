#include "plan/measured.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/numerics/philox.h"
#include "base/words.h"
#include "data/pictures/formats/jpeg.h"
#include "data/pictures/image_set.h"
#include "data/pictures/pictures.h"
#include "data/pictures/prepare/prepared_pictures.h"
#include "data/source/shuffle.h"
#include "data/text/text.h"
#include "nn/models.h"
#include "train/loop/trainer.h"
#include "train/run/run.h"

namespace podium {
namespace {

// As large as photographs of ImageNet are on average: about 0.19 million pixels in 110 KB.
constexpr std::int64_t kWidth = 500, kHeight = 375;

// Smooth colours with grain, which makes a file as large as that of a photograph.
std::vector<std::uint8_t> drawn_photograph() {
  const PhiloxStream words(0, RandomPurpose::kInitialise, 0);
  std::vector<std::uint8_t> colours(static_cast<std::size_t>(3 * kWidth * kHeight));
  std::size_t at = 0;
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      const std::uint32_t word = words.word(static_cast<std::uint32_t>(y * kWidth + x));
      const auto grain = static_cast<double>(word >> 24) / 256 - 0.5;
      for (int c = 0; c < 3; ++c) {
        const double wave = std::sin(0.02 * static_cast<double>(x) + c) *
                            std::cos(0.03 * static_cast<double>(y) - c);
        colours[at++] = static_cast<std::uint8_t>(128 + 80 * wave + 60 * grain);
      }
    }
  }
  return jpeg_bytes(colours, kHeight, kWidth, 85);
}

// One picture, again and again.
class SamePicture final : public Records {
 public:
  explicit SamePicture(std::int64_t classes)
      : file_(drawn_photograph()), classes_(classes), origin_("drawn") {}
  std::int64_t count() const override { return 1 << 16; }
  std::int32_t label(std::int64_t) const override { return 0; }
  std::string name(std::int64_t) const override { return origin_; }
  void read(std::int64_t, std::vector<std::uint8_t>& bytes) const override { bytes = file_; }
  Hash hash(StopToken) const override { return {}; }
  std::int64_t memory_bytes() const override { return std::ssize(file_); }
  std::int64_t classes() const override { return classes_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  const std::string& origin() const override { return origin_; }

 private:
  const std::vector<std::uint8_t> file_;
  const std::int64_t classes_;
  const std::vector<std::string> names_;
  const std::string origin_;
};

std::shared_ptr<const Source> drawn_pictures(const Recipe& recipe, const DataShape& data) {
  auto set = std::make_shared<ImageSet>(image_fields_of(data.fields));
  set->count = std::min(data.training, std::max<std::int64_t>(recipe.batch, 64));
  const PhiloxStream words(0, RandomPurpose::kInitialise, 0);
  set->pixels.resize(static_cast<std::size_t>(set->count * set->image_bytes()));
  for (std::size_t i = 0; i < set->pixels.size(); ++i)
    set->pixels[i] = static_cast<std::uint8_t>(words.word(static_cast<std::uint32_t>(i)));
  const std::int64_t classes = std::max<std::int64_t>(target_of(data.fields)->below, 1);
  for (std::int64_t i = 0; i < set->count; ++i)
    set->labels.push_back(static_cast<std::int32_t>(i % classes));
  return set;
}

std::shared_ptr<const Source> drawn_text(const Recipe& recipe) {
  const std::int64_t context = recipe.text.context, count = (recipe.batch + 2) * context;
  return std::make_shared<const TextSource>(TextSource::Part{
      .origin = "drawn",
      .all = tokens_of({{"drawn", std::string(static_cast<std::size_t>(count), 'x')}},
                       *byte_tokenizer()),
      .count = count,
      .vocabulary = recipe.text.vocabulary,
      .context = context,
      .shifts = true});
}

double thread_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double rate_of(const std::shared_ptr<const Source>& set, const Recipe& recipe, double seconds) {
  const std::shared_ptr<const Source> source = prepared(set, {recipe.augment, recipe.normalise});
  std::vector<std::vector<std::byte>> fields;
  std::vector<void*> row;
  for (const Field& field : source->fields())
    row.push_back(fields.emplace_back(static_cast<std::size_t>(field.bytes())).data());
  // Not in the order of files, whose first may be of one kind.
  const std::vector<std::uint32_t> order = epoch_order(recipe.seed, 0, source->examples());
  const auto read = [&](std::uint32_t example) {
    const ExampleKey key{recipe.seed, 0, example};
    source->read(example, &key, row);
  };
  read(order[0]);  // what is made once
  // The time of this core, so that what else runs here does not count.
  const auto start = Clock::now();
  const double begin = thread_seconds();
  std::size_t made = 0;
  do {
    for (int i = 0; i < 8; ++i) read(order[++made % order.size()]);
  } while (seconds_since(start) < seconds);
  return static_cast<double>(made) / std::max(thread_seconds() - begin, 1e-9);
}

}  // namespace

MeasuredData data_to_measure(const Recipe& recipe, const DataShape& data,
                             const std::string& data_dir) {
  if (has_rows(recipe))
    return {load_data(recipe, data_dir).train, cat(recipe.data, " of this recipe")};
  if (has_text(recipe)) {
    try {
      return {load_data(recipe, data_dir).train, "windows of this recipe's text"};
    } catch (const UserError&) {  // it is not here
      if (recipe.text.vocabulary == 0) throw;
      return {drawn_text(recipe), "windows of drawn tokens"};
    }
  }
  if (!has_pictures(recipe)) return {drawn_pictures(recipe, data), "normalised and augmented"};
  try {
    const MeasuredData own = {
        open_pictures(recipe.data, recipe.pictures, recipe.augment, data_dir).train,
        "decoded, cropped, normalised and augmented, of this recipe's pictures"};
    // Files of other kinds that are named like pictures: a run will say so.
    static_cast<void>(rate_of(own.set, recipe, 0));
    return own;
  } catch (const UserError&) {  // they are not here
    return {std::make_shared<const PictureSource>(
                std::make_shared<const SamePicture>(target_of(data.fields)->below),
                crop_of(recipe.pictures, recipe.augment), BadPictures{}),
            cat("decoded, cropped, normalised and augmented, of a drawn JPEG of ", kWidth, " x ",
                kHeight, " pixels")};
  }
}

double examples_per_core(const MeasuredData& data, const Recipe& recipe) {
  return rate_of(data.set, recipe, data.set->is_slow() ? 0.5 : 0.1);
}

double step_seconds_here(const MeasuredData& data, const Recipe& recipe, std::int64_t workers) {
  constexpr double kWarm = 1, kEnough = 4, kLongStep = 10;
  Trainer trainer(recipe, model_of(recipe), data.set, data.set,
                  {.workers = workers, .backend = "cpu"});
  const auto step = [&trainer] {
    return trainer.step({.hash = true, .throw_on_divergence = false}).seconds;
  };
  // Memory, caches and clocks warm up.
  double warm = step();
  if (warm > kLongStep) return warm;
  while (warm < kWarm) warm += step();
  std::vector<double> each;
  double sum = 0;
  while (sum < kEnough || each.size() < 3) sum += each.emplace_back(step());
  std::ranges::sort(each);
  return each[each.size() / 2];
}

}  // namespace podium
