// libFuzzer target: any bytes as the index of pictures in files. The reader throws UserError, or
// returns an index whose pictures lie in their files, and whose text reads back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/pictures/shards/picture_index.h"

namespace {

void read(const std::string& text) {
  try {
    const podium::PictureIndex index = podium::parse_index(text, "input");
    for (std::int64_t i = 0; i < index.count(); ++i) {
      const podium::ShardExample record = index.at(i);
      const std::int64_t size = index.state(index.file_of(i)).size;
      if (record.offset < 0 || record.size < 0 || record.size > size - record.offset) std::abort();
      if (record.record_offset < 0 || record.record_size > size - record.record_offset)
        std::abort();
      if (index.name(i).size() > text.size() + 30) std::abort();
    }
    const std::string again = podium::index_text(index);
    if (podium::index_text(podium::parse_index(again, "again")) != again) std::abort();
  } catch (const podium::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  read(text);
  // No random bytes have the right checksum: as if it stood below them.
  read(podium::with_checksum("podium pictures 1\n" + text));
  return 0;
}
