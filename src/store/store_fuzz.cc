// What a store may answer: it is read, or refused by a UserError.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "store/address.h"
#include "store/xml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    podium::parse_object_page(text, "fuzz");
  } catch (const podium::UserError&) {
  }
  podium::element_in(text, "Code");
  try {
    podium::parse_address(std::string(text));
  } catch (const podium::UserError&) {
  }
  return 0;
}
