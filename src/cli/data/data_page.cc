#include "cli/data/data_page.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "data/pictures/font.h"
#include "data/pictures/page.h"
#include "data/pictures/prepare/prepared_pictures.h"
#include "files/file_io.h"
#include "train/run/run.h"

namespace podium {
namespace {

constexpr std::int64_t kEpochs = 8;  // shown of each example
constexpr std::int64_t kMostExamples = 200;
constexpr std::int64_t kMargin = 8, kGap = 4;
constexpr std::int64_t kWantedSide = 96;  // of an enlarged image, about
constexpr std::uint8_t kGrey = 110;

std::int64_t widest(const std::vector<std::string>& captions, std::int64_t size) {
  std::int64_t most = 0;
  for (const std::string& text : captions) most = std::max(most, text_width(text, size));
  return most;
}

Page make_page(const ImageSource& set, const Recipe& recipe, const PageArguments& arguments,
               std::int64_t count) {
  const std::int64_t enlarged =
      std::max<std::int64_t>(1, kWantedSide / std::max(set.height, set.width));
  std::vector<std::string> heads = {"original"}, classes, examples;
  for (std::int64_t e = 0; e < kEpochs; ++e) heads.push_back(cat("epoch ", arguments.epoch + e));
  for (std::int64_t i = 0; i < count; ++i)
    classes.push_back(set.class_name(set.label(arguments.first + i)));
  for (std::int64_t i = 0; i < count; ++i) examples.push_back(cat("example ", arguments.first + i));

  const std::int64_t size = widest(heads, 2) <= set.width * enlarged ? 2 : 1;
  const std::int64_t column = std::max(set.width * enlarged, widest(heads, size)) + kGap;
  const std::int64_t row = std::max(set.height * enlarged, 4 * kGlyphHeight) + kGap;
  const std::int64_t top = kMargin + size * kGlyphHeight + 2 * kGap;
  const std::int64_t left = kMargin + std::max(widest(classes, 2), widest(examples, 1)) + 2 * kGap;

  Page page(top + count * row - kGap + kMargin, left + (kEpochs + 1) * column + kMargin);
  // The original stands a little apart.
  const auto column_at = [&](std::int64_t k) { return left + k * column + (k > 0 ? kGap : 0); };
  for (std::size_t k = 0; k < heads.size(); ++k)
    page.write(kMargin, column_at(static_cast<std::int64_t>(k)), size, heads[k], kGrey);
  const auto values = static_cast<std::size_t>(set.image_bytes());
  std::vector<float> image(values);
  std::int32_t label = 0;
  // Not owned: it outlives this function.
  const PreparedPictures trained_on({std::shared_ptr<const ImageSource>(), &set},
                                    {recipe.augment, recipe.normalise});
  std::vector<std::uint8_t> pixels(values);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t example = arguments.first + i, y = top + i * row;
    page.write(y, kMargin, 2, classes[static_cast<std::size_t>(i)]);
    page.write(y + 3 * kGlyphHeight, kMargin, 1, examples[static_cast<std::size_t>(i)], kGrey);
    const auto draw = [&](std::int64_t k, const std::uint8_t* shown) {
      page.draw(y, column_at(k), enlarged, set.channels, set.height, set.width, shown);
    };
    draw(0, set.read_image(example, nullptr, pixels.data()).pixels);
    for (std::int64_t e = 0; e < kEpochs; ++e) {
      const ExampleKey key{recipe.seed, arguments.epoch + e, example};
      trained_on.read(example, &key, {image.data(), &label});
      trained_on.normaliser().to_pixels(image.data(), pixels.data());
      draw(1 + e, pixels.data());
    }
  }
  return page;
}

}  // namespace

ExitCode write_data_page(const PageArguments& arguments) {
  PODIUM_REQUIRE(arguments.count >= 1 && arguments.count <= kMostExamples, ExitCode::kUsage,
                 "--count ", arguments.count, ": a page shows 1 to ", kMostExamples, " examples");
  require_writable(arguments.out, "--out", arguments.force);
  const Recipe recipe =
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir);
  const RunData data = load_data(recipe, arguments.data_dir);
  const bool train = arguments.split == "train";
  const ImageSource* const set = images_of(train ? *data.train : *data.held_out);
  PODIUM_REQUIRE(set != nullptr, ExitCode::kUsage, "recipe ", recipe.name, " has data = \"",
                 recipe.data, "\", which are no pictures; a page shows pictures");
  PODIUM_REQUIRE(arguments.first < set->count, ExitCode::kUsage, "--first ", arguments.first, ": ",
                 recipe.name, " has ", set->count, " ", arguments.split,
                 " examples, counted from 0");
  const std::int64_t count = std::min(arguments.count, set->count - arguments.first);
  const Page page = make_page(*set, recipe, arguments, count);
  const std::vector<std::uint8_t> file = page.png();
  replace_text(arguments.out, {reinterpret_cast<const char*>(file.data()), file.size()});
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"out", arguments.out},
                                         {"examples", count},
                                         {"height", page.height()},
                                         {"width", page.width()}};
    std::cout << json_text(json, 2) << "\n";
  } else {
    std::cout << printable(arguments.out) << ": " << count_text(count, "example")
              << " as in training by " << recipe.name << ", " << page.width() << " x "
              << page.height() << " pixels\n";
  }
  return ExitCode::kDone;
}

}  // namespace podium
