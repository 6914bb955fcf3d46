// What a stranger's checkpoint.json may do: be refused by a UserError, or be read, and then hold
// counts that are none below zero.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "train/loop/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const podium::CheckpointRecord record = podium::parse_checkpoint_record(text, "fuzz");
    PODIUM_CHECK(record.step >= 0 && static_cast<std::int64_t>(record.bytes) >= 0);
  } catch (const podium::UserError&) {
  }
  return 0;
}
