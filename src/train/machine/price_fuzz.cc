// What a stranger's file of prices may do: be refused by a UserError, or be read; and what is read
// has a date, a source and a price within bounds, and can be chosen.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "train/machine/price.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto prices =
        podium::parse_prices(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const podium::Price& price : prices) {
      PODIUM_CHECK(!price.date.empty() && !price.source.empty() && price.usd_per_hour > 0);
      PODIUM_CHECK(podium::choose_price(price.name() + "@" + price.date, prices).usd(3600) > 0);
    }
  } catch (const podium::UserError&) {
  }
  return 0;
}
