// What a stranger's index may do: be refused by a UserError, or be read, and then name files beside
// it, each with a tensor.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "files/safetensors_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const podium::SafetensorsShard& shard : podium::parse_safetensors_index(text, "fuzz"))
      PODIUM_CHECK(!shard.file.empty() && shard.file.find('/') == std::string::npos &&
                   !shard.tensors.empty());
  } catch (const podium::UserError&) {
  }
  return 0;
}
