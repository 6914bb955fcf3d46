// libFuzzer target: any bytes as a TFRecord shard. The reader throws UserError, or finds pictures
// that lie in their records, and those in the file. Protobuf's own code reads the records, too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/pictures/image_source.h"
#include "data/pictures/shards/tfrecord_shard.h"
#include "data/storage/record_file.h"

namespace {

void read(std::string_view text) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(text.data()),
                                            text.size());
  podium::ShardFile file(bytes, "input");
  try {
    podium::scan_tfrecord(file, [&](const podium::ShardExample& example) {
      const std::int64_t end = example.record_offset + example.record_size;
      if (example.record_offset < 12 || end + podium::kRecordFooter > file.size()) std::abort();
      if (example.size < 0 || example.offset < example.record_offset) std::abort();
      if (example.size > end - example.offset) std::abort();
      if (example.label < 0 || example.label >= podium::kMostClasses) std::abort();
      const auto record = bytes.subspan(static_cast<std::size_t>(example.record_offset),
                                        static_cast<std::size_t>(example.record_size));
      podium::is_sound_record(bytes.subspan(static_cast<std::size_t>(example.record_offset),
                                            record.size() + podium::kRecordFooter));
      podium::record_problem(record, example);
    });
  } catch (const podium::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  read(text);
  // No random bytes have the right checksums: as the data of a record.
  std::string file;
  podium::append_record(file, text);
  read(file);
  return 0;
}
