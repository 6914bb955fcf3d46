// libFuzzer target: any bytes as a picture of 2 x 3 pixels to predict, for a model that takes grey
// and for one that takes colour. The reader returns whole pictures, or throws UserError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "data/pictures/formats/image_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  for (const std::int64_t channels : {1, 3}) {
    try {
      const podium::ImageSet set = podium::parse_image_file({bytes, size}, "input", channels, 2, 3);
      if (set.count < 1 || set.image_bytes() != channels * 2 * 3 || !set.labels.empty() ||
          set.pixels.size() != static_cast<std::size_t>(set.count * set.image_bytes()))
        std::abort();
    } catch (const podium::UserError&) {
    }
  }
  return 0;
}
