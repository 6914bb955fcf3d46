// libFuzzer target: any bytes as the index of shards. The reader throws UserError, or returns an
// index whose pictures lie in their shards, and whose text reads back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/pictures/shard_index.h"

namespace {

void read(const std::string& text) {
  try {
    const podium::ShardIndex index = podium::parse_shard_index(text, "input");
    for (std::int64_t i = 0; i < index.count(); ++i) {
      const podium::ShardExample example = index.at(i);
      const std::int64_t size = index.shards[index.shard_of(i)].state.size;
      if (example.offset < 0 || example.size < 0 || example.size > size - example.offset)
        std::abort();
      if (example.record_offset < 0 || example.record_size > size - example.record_offset)
        std::abort();
      if (index.name(i).size() > text.size() + 30) std::abort();
    }
    const std::string again = podium::shard_index_text(index);
    if (podium::shard_index_text(podium::parse_shard_index(again, "again")) != again) std::abort();
  } catch (const podium::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  read(text);
  // No random bytes have the right checksum: as if it stood below them.
  read(podium::with_checksum("podium shards 1\n" + text));
  return 0;
}
