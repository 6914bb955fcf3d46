// What a stranger's receipt may do: be refused by a UserError, or be read, and then name files
// within a run's folder alone.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "trust/receipt.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const podium::Receipt receipt = podium::parse_receipt(text, "fuzz");
    for (const podium::SealedFile& file : receipt.files)
      PODIUM_CHECK(!file.path.starts_with("/") && !file.path.starts_with(".."));
  } catch (const podium::UserError&) {
  }
  return 0;
}
