// Pictures of examples for people, as PNG files, and what the network made of them as text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/pictures/image_source.h"
#include "report/pages/run_page.h"
#include "report/trackers/tensorboard.h"
#include "train/loop/trainer.h"
#include "train/predict/predictor.h"

namespace podium {

struct ExamplePicture {
  std::vector<std::uint8_t> png;
  std::int64_t height = 0, width = 0;
};

// Example `index` as evaluation sees it: an image in colour, frames of a sound as their bands over
// time, the lowest at the bottom. An image with a side above `most_side` is reduced by a whole
// factor, so that pages stay small; nothing if the set has neither. Throws UserError(kData) if it
// cannot be read.
std::optional<ExamplePicture> picture_of(const Source& set, std::int64_t index,
                                         std::int64_t most_side = 96);

// "cat", or of a mistake "cat (is dog), loss 3.21"; with the name of the example, if it has one.
std::string caption_of(const Source& set, const ExamplePrediction& example);

// The examples for a page, with their captions. None if the set has no pictures. Throws as
// picture_of().
std::vector<PageFigure> figures_of(const Source& set, std::span<const ExamplePrediction> examples);

// The worst mistakes with a table of them, for TensorBoard; nothing if the set has no pictures.
// Throws as picture_of().
void write_mistakes(TensorBoardWriter& writer, const Source& set, const EvaluationResult& result);

// What the network makes of some pictures, for a page: a few, evenly chosen, and the mistakes that
// it is surest of. Nothing if the set has no pictures.
void show_predicted(RunPage& page, Predictor& predictor, const Source& held_out);

}  // namespace podium
