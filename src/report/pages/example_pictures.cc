#include "report/pages/example_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/spread.h"
#include "data/pictures/formats/image_file.h"
#include "data/pictures/prepare/prepared_pictures.h"
#include "data/sounds/sound_options.h"

namespace podium {
namespace {

constexpr std::size_t kMistakes = 8;       // that TensorBoard shows
constexpr std::int64_t kPredicted = 1000;  // of the held-out set, evenly chosen
constexpr std::size_t kShown = 24;

ExamplePicture picture_of_image(const ImageSource& set, std::int64_t index,
                                std::int64_t most_side) {
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(set.image_bytes()));
  const std::uint8_t* pixels = set.read_image(index, nullptr, memory.data()).pixels;
  const std::int64_t side = std::max(set.height, set.width);
  const std::int64_t factor = (side + most_side - 1) / most_side;
  ExamplePicture picture{.png = {}, .height = set.height / factor, .width = set.width / factor};
  std::vector<std::uint8_t> colours(static_cast<std::size_t>(3 * picture.height * picture.width));
  std::size_t at = 0;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::uint8_t* plane = pixels + (set.channels == 3 ? c : 0) * set.height * set.width;
        std::int64_t sum = 0;
        for (std::int64_t dy = 0; dy < factor; ++dy)
          for (std::int64_t dx = 0; dx < factor; ++dx)
            sum += plane[(y * factor + dy) * set.width + x * factor + dx];
        const std::int64_t area = factor * factor;
        colours[at++] = static_cast<std::uint8_t>((sum + area / 2) / area);
      }
    }
  }
  picture.png = png_bytes(colours, picture.height, picture.width);
  return picture;
}

// Bands of frames, two pixels wide and high: from black, two deviations below the mean, to white.
ExamplePicture picture_of_frames(const Source& set, const Field& field, std::int64_t index) {
  constexpr std::int64_t kScale = 2;
  const std::int64_t frames = field.shape[0], mels = field.shape[1];
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> row;
  const float* values = nullptr;
  for (const Field& own : set.fields()) {
    row.push_back(memory.emplace_back(static_cast<std::size_t>(own.bytes())).data());
    if (own.name == field.name) values = static_cast<const float*>(row.back());
  }
  set.read(index, nullptr, row);
  ExamplePicture picture{.png = {}, .height = kScale * mels, .width = kScale * frames};
  std::vector<std::uint8_t> colours;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const float value = values[x / kScale * mels + mels - 1 - y / kScale];
      const auto grey = static_cast<std::uint8_t>(std::clamp(128 + 64 * value, 0.0f, 255.0f));
      colours.insert(colours.end(), 3, grey);
    }
  }
  picture.png = png_bytes(colours, picture.height, picture.width);
  return picture;
}

}  // namespace

std::optional<ExamplePicture> picture_of(const Source& set, std::int64_t index,
                                         std::int64_t most_side) {
  if (const ImageSource* const images = images_of(set))
    return picture_of_image(*images, index, most_side);
  const std::vector<Field> fields = set.fields();
  const Field* const frames = find_field(fields, kFramesField);
  if (frames == nullptr || frames->dtype != DType::kF32 || frames->shape.rank() != 2)
    return std::nullopt;
  return picture_of_frames(set, *frames, index);
}

std::string caption_of(const Source& set, const ExamplePrediction& example) {
  const std::vector<Field> fields = set.fields();
  const Field& target = *target_of(fields);
  const auto predicted = static_cast<std::int64_t>(example.predicted),
             is = static_cast<std::int64_t>(example.target);
  std::string text = predicted < 0 ? "no class" : word_of(target, predicted);
  if (predicted != is)
    text += fmt::format(" (is {}), loss {:.2f}", word_of(target, is), example.loss);
  const std::string name = set.example_name(example.index);
  return name.empty() ? text : text + ": " + name;
}

std::vector<PageFigure> figures_of(const Source& set, std::span<const ExamplePrediction> examples) {
  std::vector<PageFigure> figures;
  for (const ExamplePrediction& example : examples) {
    std::optional<ExamplePicture> picture = picture_of(set, example.index);
    if (!picture) return {};
    PageFigure& figure = figures.emplace_back();
    figure = {.png = std::move(picture->png),
              .caption = caption_of(set, example),
              .mistaken = example.predicted != example.target};
    figure.width = std::max(figure.width, picture->width);
  }
  return figures;
}

void write_mistakes(TensorBoardWriter& writer, const Source& set, const EvaluationResult& result) {
  std::string text;
  for (std::size_t i = 0; i < std::min(result.worst.size(), kMistakes); ++i) {
    const ExamplePrediction& example = result.worst[i];
    const std::optional<ExamplePicture> picture = picture_of(set, example.index);
    if (!picture) return;
    writer.picture(cat("mistakes/", i + 1), result.step, picture->png, picture->height,
                   picture->width);
    text += cat("| ", i + 1, " | ", caption_of(set, example), " |\n");
  }
  if (!text.empty())
    writer.text("mistakes", result.step, "| picture | taken for |\n| --- | --- |\n" + text);
}

void show_predicted(RunPage& page, Predictor& predictor, const Source& held_out) {
  const ImageSource* const images = images_of(held_out);
  if (images == nullptr) return;
  const ImageSet part = sample_of(*images, std::min(kPredicted, images->count));
  const Tensor logits = predictor.logits(part);
  struct Guess {
    std::int64_t index, label, guess;
    double probability;
  };
  std::vector<Guess> guesses;
  const std::int64_t classes = predictor.classes();
  for (std::int64_t i = 0; i < part.count; ++i) {
    const auto row = logits.f32().subspan(static_cast<std::size_t>(i * classes),
                                          static_cast<std::size_t>(classes));
    const auto best = std::ranges::max_element(row);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit - *best));
    guesses.push_back({i, part.labels[static_cast<std::size_t>(i)], best - row.begin(), 1 / sum});
  }
  const auto picture = [&](const Guess& g) {
    const bool wrong = g.guess != g.label;
    return PageFigure{
        .png = picture_of(part, g.index)->png,
        .caption = cat(predictor.class_name(g.guess), ", ", std::llround(100 * g.probability), "%",
                       wrong ? " (is " + predictor.class_name(g.label) + ")" : ""),
        .mistaken = wrong};
  };
  const std::int64_t shown = std::min(part.count, static_cast<std::int64_t>(kShown));
  for (std::int64_t i = 0; i < shown; ++i)
    page.examples.push_back(
        picture(guesses[static_cast<std::size_t>(spread_over(part.count, shown, i))]));
  std::erase_if(guesses, [](const Guess& g) { return g.guess == g.label; });
  std::ranges::stable_sort(guesses, std::ranges::greater(), &Guess::probability);
  for (std::size_t i = 0; i < std::min(guesses.size(), kShown); ++i)
    page.mistakes.push_back(picture(guesses[i]));
}

}  // namespace podium
