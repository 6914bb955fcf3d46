// libFuzzer target: any bytes as an IDX file. The reader either returns what the header states or
// throws UserError; memory stays in proportion to the input.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "data/pictures/formats/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    const podium::IdxData data = podium::parse_idx({bytes, size}, "input");
    std::uint64_t elements = 1;
    for (const std::int64_t extent : data.extents) {
      elements *= static_cast<std::uint64_t>(extent);
    }
    if (elements != data.bytes.size()) std::abort();
  } catch (const podium::UserError&) {
  }
  return 0;
}
