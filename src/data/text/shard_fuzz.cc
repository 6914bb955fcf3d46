// libFuzzer target: any bytes as a shard of tokens, .npy and .bin. One that is opened can be read.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/text/tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::string name =
      (std::filesystem::temp_directory_path() / ("shard-fuzz-" + std::to_string(getpid())))
          .string();
  for (const char* kind : {".npy", ".bin"}) {
    const std::string file = name + kind;
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    try {
      const auto tokens = podium::open_shards({file}, 300);
      std::vector<std::int32_t> read(static_cast<std::size_t>(tokens->size()));
      if (!read.empty()) tokens->copy(0, tokens->size(), read.data());
      if (std::ranges::any_of(read, [](std::int32_t t) { return t < 0 || t >= 300; })) std::abort();
    } catch (const podium::UserError&) {
    }
    std::filesystem::remove(file);
  }
  return 0;
}
