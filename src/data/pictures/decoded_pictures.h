// Decoded pictures that stay in memory from one epoch to the next: those that are read first, until
// one finds no room in the memory that they may take. None makes way for another: an epoch reads
// each picture once, so whichever had to go would be needed no later than what took its place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "data/pictures/formats/picture.h"

namespace podium {

// Thread-safe.
class DecodedPictures {
 public:
  // More bytes than before: of pixels, three a pixel, and what is known of each picture.
  void allow(std::int64_t bytes) { allowed_ += bytes, full_ = false; }
  // Whether no picture has found no room yet.
  bool has_room() const { return !full_; }
  // Of picture `index`, if some of it is kept.
  std::optional<PictureSize> size_of(std::int64_t index) const;
  // Copies an area of the picture as decoded at so many eighths; false if it is not kept so.
  bool read(std::int64_t index, int eighths, const PictureArea& area, PicturePixels& to) const;
  // Keeps all of a picture as decoded at so many eighths. False if there is no room for it.
  bool keep(std::int64_t index, const PictureSize& size, int eighths, const PicturePixels& all);

 private:
  struct Pixels {
    std::int64_t height = 0, width = 0;
    std::vector<std::uint8_t> bytes;  // [height][width][3], and one more
  };
  struct Picture {
    PictureSize size;
    std::map<int, std::shared_ptr<const Pixels>> pixels;  // by eighths
  };
  std::atomic<std::int64_t> allowed_ = 0, kept_ = 0;
  std::atomic<bool> full_ = true;
  mutable std::shared_mutex mutex_;
  std::map<std::int64_t, Picture> pictures_;
};

}  // namespace podium
