// libFuzzer target: any bytes as a tar shard. The reader throws UserError, or finds pictures that
// lie in the file, each with a label and a name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/error.h"
#include "data/pictures/image_source.h"
#include "data/pictures/shards/tar_shard.h"

namespace {

void read(std::span<const std::uint8_t> bytes) {
  podium::ShardFile file(bytes, "input");
  try {
    podium::scan_tar(file, [&](const podium::ShardExample& example) {
      if (example.offset < 512 || example.size < 0 || example.name.empty()) std::abort();
      if (example.size > file.size() - example.offset) std::abort();
      if (example.label < 0 || example.label >= podium::kMostClasses) std::abort();
    });
  } catch (const podium::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  read({bytes, size});
  // No random bytes have the right checksum: as if it stood in every block that is not all zeros.
  std::vector<std::uint8_t> sums(bytes, bytes + size);
  for (std::size_t block = 0; block + 512 <= size; block += 512) {
    std::uint32_t sum = 8 * ' ';
    bool zero = true;
    for (std::size_t i = 0; i < 512; ++i) {
      if (i >= 148 && i < 156) continue;
      sum += sums[block + i];
      zero = zero && sums[block + i] == 0;
    }
    if (zero) continue;
    for (std::size_t i = 0; i < 6; ++i)
      sums[block + 148 + i] = static_cast<std::uint8_t>('0' + (sum >> (15 - 3 * i) & 7));
    sums[block + 154] = 0;
    sums[block + 155] = ' ';
  }
  read(sums);
  return 0;
}
