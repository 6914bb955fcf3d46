// Pictures of examples for people, as PNG files, and what the network made of them as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/pictures/image_source.h"
#include "train/loop/trainer.h"

namespace podium {

struct ExamplePicture {
  std::vector<std::uint8_t> png;
  std::int64_t height = 0, width = 0;
};

// Example `index` as evaluation sees it, in colour. One with a side above `most_side` is reduced by
// a whole factor, so that pages stay small. Throws UserError(kData) if it cannot be read.
ExamplePicture picture_of(const ImageSource& set, std::int64_t index, std::int64_t most_side = 96);

// "cat", or of a mistake "cat (is dog), loss 3.21".
std::string caption_of(const ImageSource& set, const ExamplePrediction& example);

}  // namespace podium
