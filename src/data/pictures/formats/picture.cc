#include "data/pictures/formats/picture.h"

#include <optional>
#include <utility>

#include "data/pictures/formats/jpeg.h"
#include "data/pictures/formats/png.h"

namespace podium {
namespace {

std::string size_text(std::int64_t height, std::int64_t width) {
  return cat(height, " x ", width, " pixels (height x width)");
}

}  // namespace

void require_picture_size(const std::string& name, std::int64_t height, std::int64_t width,
                          bool scales) {
  const std::int64_t most = scales ? kMostPicturePixels : kMostWholePixels;
  if (height * width <= most) return;
  throw BadPicture(cat(
      name, ": the picture has ", size_text(height, width), ", more than the ", most, " allowed",
      height * width <= kMostPicturePixels
          ? " in a PNG or progressive JPEG; make it smaller, or a JPEG that is not "
            "progressive, with an image program"
          : "; make it smaller with an image program"));
}

struct PictureReader::Formats {
  std::optional<JpegReader> jpeg;
  std::optional<PngReader> png;
};

PictureReader::PictureReader(std::span<const std::uint8_t> file, std::string name)
    : name_(std::move(name)), formats_(std::make_unique<Formats>()) {
  if (file.empty()) throw BadPicture(cat(name_, ": the file is empty"));
  if (is_jpeg(file)) {
    formats_->jpeg.emplace(file, name_);
    size_ = {formats_->jpeg->height(), formats_->jpeg->width(), true};
  } else if (is_png(file)) {
    formats_->png.emplace(file, name_);
    size_ = {formats_->png->height(), formats_->png->width(), false};
  } else {
    throw BadPicture(cat(name_, ": the file is neither JPEG nor PNG; convert it"));
  }
}

PictureReader::~PictureReader() = default;

int PictureSize::eighths_for(std::int64_t area_height, std::int64_t area_width,
                             std::int64_t least_height, std::int64_t least_width) const {
  if (!scales) return 8;
  for (const int eighths : {1, 2, 4})
    if (eighths == most_eighths() ||
        (area_height * eighths >= 8 * least_height && area_width * eighths >= 8 * least_width))
      return eighths;
  return 8;
}

void PictureReader::decode(int eighths, const PictureArea& wanted, PicturePixels& pixels) {
  if (formats_->jpeg) return formats_->jpeg->decode(eighths, wanted, pixels);
  PODIUM_CHECK(eighths == 8, eighths);
  PngReader& png = *formats_->png;
  PODIUM_CHECK(wanted.top >= 0 && wanted.height >= 1 &&
                   wanted.top + wanted.height <= size_.height && wanted.left >= 0 &&
                   wanted.width >= 1 && wanted.left + wanted.width <= size_.width,
               wanted.top, " ", wanted.left);
  thread_local std::vector<std::uint8_t> bytes;
  png.decode(bytes);
  pixels.area = wanted;
  pixels.allocate();
  const std::int64_t channels = png.channels();
  for (std::int64_t y = 0; y < wanted.height; ++y) {
    const std::uint8_t* from =
        bytes.data() + ((wanted.top + y) * size_.width + wanted.left) * channels;
    std::uint8_t* to = pixels.row(y);
    for (std::int64_t x = 0; x < wanted.width; ++x, from += channels, to += 4)
      for (std::int64_t c = 0; c < 3; ++c) to[c] = from[channels == 1 ? 0 : c];
  }
}

void PictureReader::decode_all(int eighths, PicturePixels& pixels) {
  decode(eighths, {0, 0, (size_.height * eighths + 7) / 8, (size_.width * eighths + 7) / 8},
         pixels);
}

std::int64_t PictureReader::decoding_bytes() const {
  const std::int64_t whole = size_.height * size_.width;
  // Four bytes a pixel, and what the library holds: all of a PNG, the coefficients of a JPEG.
  if (formats_->png) return (4 + formats_->png->channels()) * whole;
  const std::int64_t eighths = size_.most_eighths();
  return 4 * whole * eighths * eighths / 64 + (formats_->jpeg->is_progressive() ? 6 * whole : 0);
}

std::string picture_decoders() { return cat(jpeg_decoder_version(), ", ", png_decoder_version()); }

}  // namespace podium
