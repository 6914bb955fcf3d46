// libFuzzer target: any bytes as a photograph, as training sees it (a drawn crop, at a fraction of
// its size) and as evaluation does. The reader fills the example, or throws UserError.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "data/pictures/picture_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  podium::CropOptions crop;
  crop.size = 8, crop.resize = 9, crop.random = true;
  const podium::ExampleKey key{1, 0, static_cast<std::int64_t>(size)};
  std::vector<std::uint8_t> example(3 * 8 * 8);
  for (const podium::ExampleKey* drawn : {&key, static_cast<const podium::ExampleKey*>(nullptr)}) {
    try {
      podium::make_example({bytes, size}, "input", crop, drawn, example.data());
    } catch (const podium::UserError&) {
    }
  }
  return 0;
}
