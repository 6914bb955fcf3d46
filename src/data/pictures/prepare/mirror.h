// Mirroring left to right, as an Augmenter does it.
#pragma once

#include "data/pictures/prepare/augment.h"

namespace podium {

// Whether an image is mirrored: drawn, or in every other epoch, as `options.flip` says.
bool is_mirrored(const AugmentOptions& options, const ExampleKey& key);
// Whether an Augmenter does nothing else. One may as well mirror pixels that are not normalised
// yet, which are smaller.
bool only_mirrors(const AugmentOptions& options);

}  // namespace podium
