// A picture from a file, or a part of it, as it was decoded: JPEG or PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace podium {

// A picture that cannot be decoded: the text names it and says why. Of all errors of data, the one
// that a recipe may pass over (data.on_error = "skip").
class BadPicture : public UserError {
 public:
  explicit BadPicture(const std::string& text) : UserError(text, ExitCode::kData) {}
};

// A picture of more pixels than kMostWholePixels, 8192 x 8192, would take more memory than
// decoding should. A JPEG is then decoded at half its sides, up to kMostPicturePixels; a larger one
// is refused, and so are a PNG and a progressive JPEG, which cannot be decoded so (a rule of the
// picture alone, docs/numerics.md).
inline constexpr std::int64_t kMostWholePixels = std::int64_t{1} << 26,
                              kMostPicturePixels = std::int64_t{1} << 28;
// Throws BadPicture where the rule refuses it; `scales`: it can be decoded at half its sides.
void require_picture_size(const std::string& name, std::int64_t height, std::int64_t width,
                          bool scales);

// What is known of a picture before it is decoded.
struct PictureSize {
  std::int64_t height = 0, width = 0;
  bool scales = false;  // a JPEG, of which fewer pixels may be decoded
  // In eighths of its size, the most at which it is decoded: 8, or 4 where it is huge.
  int most_eighths() const { return height * width <= kMostWholePixels ? 8 : 4; }
  // The smallest of 1, 2, 4 and 8 eighths, but most_eighths() at most, at which an area of
  // `area_height` x `area_width` still has at least `least_height` x `least_width` pixels. 8 for
  // PNG.
  int eighths_for(std::int64_t area_height, std::int64_t area_width, std::int64_t least_height,
                  std::int64_t least_width) const;
};

// Whole pixels of a picture.
struct PictureArea {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const PictureArea&) const = default;
};

// Pixels of an area, in memory that is kept for the next: red, green, blue and a byte that has no
// meaning.
struct PicturePixels {
  PictureArea area;  // of the decoded picture: at least what was asked for
  std::vector<std::uint8_t> bytes;

  void allocate() {
    const auto size = static_cast<std::size_t>(4 * area.height * area.width);
    if (bytes.size() >= size) return;
    bytes = {};  // not both at a time
    bytes.resize(size);
  }
  std::uint8_t* row(std::int64_t y) { return bytes.data() + 4 * y * area.width; }
  const std::uint8_t* row(std::int64_t y) const { return bytes.data() + 4 * y * area.width; }
};

// A picture of which only its size has been read.
class PictureReader {
 public:
  // `file` must outlive it. Throws BadPicture: no JPEG or PNG, damaged, or too large.
  PictureReader(std::span<const std::uint8_t> file, std::string name);
  ~PictureReader();
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;

  const PictureSize& size() const { return size_; }
  // What decoding it takes at most.
  std::int64_t decoding_bytes() const;
  // `wanted` is of the picture at this size. To be called once. Throws BadPicture.
  void decode(int eighths, const PictureArea& wanted, PicturePixels& pixels);
  // All of it.
  void decode_all(int eighths, PicturePixels& pixels);

 private:
  struct Formats;
  std::string name_;
  std::unique_ptr<Formats> formats_;
  PictureSize size_;
};

// What decodes pictures, as a run's identity states it: "libjpeg-turbo 2.1.5, libpng 1.6.39".
std::string picture_decoders();

}  // namespace podium
