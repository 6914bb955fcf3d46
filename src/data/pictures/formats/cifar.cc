#include "data/pictures/formats/cifar.h"

#include <vector>

#include "base/error.h"
#include "files/checksum.h"

namespace podium {

ImageSet cifar_set() {
  ImageSet set;
  set.channels = kCifarChannels;
  set.height = set.width = kCifarSide;
  set.classes = kCifarClasses;
  return set;
}

void append_cifar(ByteSource& bytes, const std::string& name, const std::string& remedy,
                  std::int64_t most, ImageSet& set, StopToken stop) {
  const std::size_t pixels_before = set.pixels.size(), labels_before = set.labels.size();
  const auto fail = [&](std::uint64_t at, const std::string& what) {
    throw UserError(
        cat(name, ": at byte ", at, bytes.packed() ? " (unpacked): " : ": ", what, "; ", remedy),
        ExitCode::kData);
  };
  constexpr std::size_t kRecordsAtOnce = 256;
  std::vector<std::uint8_t> chunk(kRecordsAtOnce * kCifarRecord);
  std::uint64_t position = 0;
  set.pixels.reserve(pixels_before + static_cast<std::size_t>(most * set.image_bytes()));
  std::size_t n = 0;
  try {
    do {
      stop.check();
      n = bytes.read(chunk);
      for (std::size_t at = 0; at < n; at += kCifarRecord) {
        if (static_cast<std::int64_t>(set.labels.size() - labels_before) == most)
          fail(position + at,
               cat("data continues after the ", most, " images that the file must have"));
        if (n - at < kCifarRecord)
          fail(position + n,
               cat("the file ends here, inside record ", (position + at) / kCifarRecord,
                   "; each record has ", kCifarRecord, " bytes"));
        if (chunk[at] >= kCifarClasses)
          fail(position + at, cat("label ", static_cast<int>(chunk[at]),
                                  " is out of range; labels are 0 to ", kCifarClasses - 1));
        set.labels.push_back(chunk[at]);
        const auto record = chunk.begin() + static_cast<std::ptrdiff_t>(at);
        set.pixels.insert(set.pixels.end(), record + 1, record + kCifarRecord);
      }
      position += n;
    } while (n == chunk.size());
    if (position == 0) fail(0, "the file is empty");
  } catch (...) {
    set.pixels.resize(pixels_before);
    set.labels.resize(labels_before);
    throw;
  }
  set.count = static_cast<std::int64_t>(set.labels.size());
}

std::uint64_t cifar_digest(const ImageSet& set) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < set.count; ++i) {
    Checksum hash(ChecksumKind::kSha256);
    const auto label = static_cast<std::uint8_t>(set.label(i));
    hash.update({&label, 1});
    hash.update(
        {set.pixels.data() + i * set.image_bytes(), static_cast<std::size_t>(set.image_bytes())});
    const std::string text = hash.finish();  // two digits a byte
    std::uint64_t first = 0;
    for (int byte = 7; byte >= 0; --byte)
      first =
          first << 8 | std::stoul(text.substr(2 * static_cast<std::size_t>(byte), 2), nullptr, 16);
    sum += first;
  }
  return sum;
}

}  // namespace podium
