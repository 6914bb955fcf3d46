#include "plan/input_rate.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/philox.h"
#include "base/words.h"
#include "data/pictures/image_set.h"
#include "data/pictures/jpeg.h"
#include "data/pictures/pictures.h"
#include "data/pictures/prepared_pictures.h"
#include "data/source/shuffle.h"
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

std::shared_ptr<const Source> drawn_examples(const Recipe& recipe, const DataShape& data) {
  // A batch, or as much of it as the rate needs.
  constexpr std::int64_t kMostBytes = 64 << 20;
  auto set = std::make_shared<ImageSet>(image_fields_of(data.fields));
  set->count =
      std::min(data.training,
               std::max<std::int64_t>(std::min(recipe.batch, kMostBytes / set->image_bytes()), 64));
  set->pixels.resize(static_cast<std::size_t>(set->count * set->image_bytes()));
  set->labels.resize(static_cast<std::size_t>(set->count));
  return set;
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

InputRate measure_input_rate(const Recipe& recipe, const DataShape& data,
                             const std::string& data_dir) {
  if (has_text(recipe) || has_table(recipe))
    return {rate_of(load_data(recipe, data_dir).train, recipe, 0.1),
            has_text(recipe) ? "windows of this recipe's text" : "rows of this recipe's table"};
  if (!has_pictures(recipe))
    return {rate_of(drawn_examples(recipe, data), recipe, 0.1), "normalised and augmented"};
  try {
    const Pictures pictures = open_pictures(recipe.data, recipe.pictures, recipe.augment, data_dir);
    return {rate_of(pictures.train, recipe, 0.5),
            "decoded, cropped, normalised and augmented, of this recipe's pictures"};
  } catch (const UserError&) {  // they are not here; or no pictures, which a run will say
    const auto drawn = std::make_shared<const PictureSource>(
        std::make_shared<const SamePicture>(target_of(data.fields)->below),
        crop_of(recipe.pictures, recipe.augment), BadPictures{});
    return {rate_of(drawn, recipe, 0.5),
            cat("decoded, cropped, normalised and augmented, of a drawn JPEG of ", kWidth, " x ",
                kHeight, " pixels")};
  }
}

}  // namespace podium
