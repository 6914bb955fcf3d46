#include "report/example_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/spread.h"
#include "data/pictures/image_file.h"
#include "data/pictures/prepared_pictures.h"

namespace podium {
namespace {

constexpr std::size_t kMistakes = 8;       // that TensorBoard shows
constexpr std::int64_t kPredicted = 1000;  // of the held-out set, evenly chosen
constexpr std::size_t kShown = 24;

}  // namespace

ExamplePicture picture_of(const ImageSource& set, std::int64_t index, std::int64_t most_side) {
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

std::string caption_of(const ImageSource& set, const ExamplePrediction& example) {
  const auto predicted = static_cast<std::int64_t>(example.predicted),
             target = static_cast<std::int64_t>(example.target);
  const std::string text = predicted < 0 ? "no class" : set.class_name(predicted);
  if (predicted == target) return text;
  return fmt::format("{} (is {}), loss {:.2f}", text, set.class_name(target), example.loss);
}

std::vector<PageFigure> figures_of(const Source& set, std::span<const ExamplePrediction> examples) {
  std::vector<PageFigure> figures;
  const ImageSource* const images = images_of(set);
  if (images == nullptr) return figures;
  for (const ExamplePrediction& example : examples)
    figures.push_back({.png = picture_of(*images, example.index).png,
                       .caption = caption_of(*images, example),
                       .mistaken = example.predicted != example.target});
  return figures;
}

void write_mistakes(TensorBoardWriter& writer, const Source& set, const EvaluationResult& result) {
  const ImageSource* const images = images_of(set);
  if (images == nullptr || result.worst.empty()) return;
  std::string text = "| picture | taken for | is | loss |\n| --- | --- | --- | --- |\n";
  for (std::size_t i = 0; i < std::min(result.worst.size(), kMistakes); ++i) {
    const ExamplePrediction& example = result.worst[i];
    const ExamplePicture picture = picture_of(*images, example.index);
    writer.picture(cat("mistakes/", i + 1), result.step, picture.png, picture.height,
                   picture.width);
    const auto predicted = static_cast<std::int64_t>(example.predicted),
               target = static_cast<std::int64_t>(example.target);
    text += cat("| ", i + 1, " | ", predicted < 0 ? "no class" : images->class_name(predicted),
                " | ", images->class_name(target), " | ", example.loss, " |\n");
  }
  writer.text("mistakes", result.step, text);
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
        .png = picture_of(part, g.index).png,
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
