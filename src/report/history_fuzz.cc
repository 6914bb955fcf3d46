// What a stranger's metrics.jsonl and hashes.jsonl may do: be refused by a UserError, or be read.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "report/history.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    podium::parse_metrics(text, "fuzz");
  } catch (const podium::UserError&) {
  }
  try {
    podium::parse_hashes(text, "fuzz");
  } catch (const podium::UserError&) {
  }
  return 0;
}
