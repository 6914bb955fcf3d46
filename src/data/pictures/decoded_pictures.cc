#include "data/pictures/decoded_pictures.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

constexpr std::size_t kOfPixels = 4;    // PicturePixels
constexpr std::int64_t kBesides = 256;  // what a picture takes besides its pixels, about

}  // namespace

std::optional<PictureSize> DecodedPictures::size_of(std::int64_t index) const {
  if (kept_ == 0) return std::nullopt;
  const std::shared_lock lock(mutex_);
  const auto found = pictures_.find(index);
  if (found == pictures_.end()) return std::nullopt;
  return found->second.size;
}

bool DecodedPictures::read(std::int64_t index, int eighths, const PictureArea& area,
                           PicturePixels& to) const {
  std::shared_ptr<const Pixels> from;
  {
    const std::shared_lock lock(mutex_);
    const auto picture = pictures_.find(index);
    if (picture == pictures_.end()) return false;
    const auto found = picture->second.pixels.find(eighths);
    if (found == picture->second.pixels.end()) return false;
    from = found->second;
  }
  PODIUM_CHECK(area.top >= 0 && area.left >= 0 && area.top + area.height <= from->height &&
                   area.left + area.width <= from->width,
               area.top, " ", area.left);
  to.area = area;
  to.allocate();
  for (std::int64_t y = 0; y < area.height; ++y) {
    const std::uint8_t* row = from->bytes.data() + 3 * ((area.top + y) * from->width + area.left);
    std::uint8_t* out = to.row(y);
    // The fourth byte has no meaning.
    for (std::int64_t x = 0; x < area.width; ++x) std::memcpy(out + 4 * x, row + 3 * x, kOfPixels);
  }
  return true;
}

bool DecodedPictures::keep(std::int64_t index, const PictureSize& size, int eighths,
                           const PicturePixels& all) {
  const std::int64_t height = all.area.height, width = all.area.width,
                     bytes = 3 * height * width + 1, taken = bytes + kBesides;
  if (kept_.fetch_add(taken) + taken > allowed_) {
    kept_ -= taken;
    full_ = true;
    return false;
  }
  auto pixels = std::make_shared<Pixels>();
  pixels->height = height, pixels->width = width;
  pixels->bytes.resize(static_cast<std::size_t>(bytes));
  std::uint8_t* to = pixels->bytes.data();
  for (std::int64_t y = 0; y < height; ++y, to += 3 * width)
    for (std::int64_t x = 0; x < width; ++x)
      std::memcpy(to + 3 * x, all.row(y) + 4 * x, kOfPixels);  // the next pixel writes over one
  const std::unique_lock lock(mutex_);
  Picture& picture = pictures_[index];
  picture.size = size;
  if (!picture.pixels.emplace(eighths, std::move(pixels)).second) kept_ -= taken;
  return true;
}

}  // namespace podium
