// JPEG by libjpeg-turbo: only the part of a picture that is needed, at a fraction of its size.
//
// The accurate integer transform (JDCT_ISLOW) and smooth upsampling of colours, whose bits are the
// same on every machine with the same version of the library. A picture becomes red, green and
// blue: grey is repeated; CMYK becomes colour as Pillow does it, c k / 255 rounded of the inverted
// values that Adobe stores. Colour profiles and EXIF (so its orientation, too) are ignored, as the
// usual loaders do. A picture that ends early or has damaged data where it is read is refused;
// bytes between its parts that mean nothing are passed over.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/pictures/formats/picture.h"

namespace podium {

// One JPEG file in memory, which must outlive it.
class JpegReader {
 public:
  // Reads the header. Throws BadPicture.
  JpegReader(std::span<const std::uint8_t> file, const std::string& name);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  std::int64_t height() const;
  std::int64_t width() const;
  bool is_progressive() const;

  // The part `wanted` of the picture at `eighths` / 8 of its size (8, 4, 2 or 1), which has
  // ceil(height * eighths / 8) rows. To be called once. Throws BadPicture.
  void decode(int eighths, const PictureArea& wanted, PicturePixels& pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_jpeg(std::span<const std::uint8_t> file);

// The bytes of a JPEG file of this quality, 1 to 100, for a picture of red, green and blue bytes
// [height, width, 3]. Colours have half the resolution, as in most photographs. Throws
// std::bad_alloc if there is not enough memory.
std::vector<std::uint8_t> jpeg_bytes(std::span<const std::uint8_t> colours, std::int64_t height,
                                     std::int64_t width, int quality);

// "libjpeg-turbo 2.1.5"
std::string jpeg_decoder_version();

}  // namespace podium
