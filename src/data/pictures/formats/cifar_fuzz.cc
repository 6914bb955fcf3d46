// libFuzzer target: any bytes as CIFAR-10's records, and as an archive of files of them. The reader
// returns whole records with good labels, no more than asked for, or throws UserError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "data/pictures/formats/cifar.h"
#include "files/archive.h"

namespace {

void read_records(podium::ByteSource& bytes) {
  podium::ImageSet set = podium::cifar_set();
  constexpr std::int64_t kMost = 300;  // more than a chunk of the reader's holds
  podium::append_cifar(bytes, "input", "", kMost, set);
  if (set.count == 0 || set.count > kMost ||
      set.labels.size() != static_cast<std::size_t>(set.count) ||
      set.pixels.size() != static_cast<std::size_t>(set.count * set.image_bytes()))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    read_records(*podium::open_bytes({bytes, size}, "input", ""));
  } catch (const podium::UserError&) {
  }
  try {
    podium::parse_archive({bytes, size}, "input", "",
                          [](const std::string&, podium::ByteSource& member) {
                            read_records(member);
                            return true;
                          });
  } catch (const podium::UserError&) {
  }
  return 0;
}
