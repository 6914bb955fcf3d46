// What a stranger's band.json may do: be refused by a UserError, or be read, and then give a band
// whose bounds are numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "report/band.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const podium::Band band = podium::parse_band(text, "fuzz");
    PODIUM_CHECK(std::isfinite(band.low()) && std::isfinite(band.high()));
    PODIUM_CHECK(band.low() <= band.mean() && band.mean() <= band.high());
  } catch (const podium::UserError&) {
  }
  return 0;
}
