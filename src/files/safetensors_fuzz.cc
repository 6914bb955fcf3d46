// What a stranger's safetensors file may do: be refused by a UserError, or be read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    podium::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const podium::UserError&) {
  }
  return 0;
}
