// What a stranger's pickle may do: be refused by a UserError, or be read as tensors, which have
// extents and strides that are not negative.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "files/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const podium::PickledTensor& one : podium::tensors_of_pickle(text, "fuzz")) {
      PODIUM_CHECK(one.extents.size() == one.strides.size() && one.offset >= 0 && one.count >= 0);
      for (std::size_t i = 0; i < one.extents.size(); ++i)
        PODIUM_CHECK(one.extents[i] >= 0 && one.strides[i] >= 0);
    }
  } catch (const podium::UserError&) {
  }
  return 0;
}
