#include "data/pictures/formats/png.h"

#include <png.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "data/pictures/formats/picture.h"

namespace podium {

struct PngReader::State {
  explicit State(const std::string& its_name) : name(its_name) {
    image.version = PNG_IMAGE_VERSION;
  }
  ~State() { png_image_free(&image); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[noreturn]] void fail() const {
    throw BadPicture(cat(name, ": the PNG file is damaged: ", image.message));
  }

  const std::string& name;
  png_image image{};
  bool colour = false;
};

PngReader::PngReader(std::span<const std::uint8_t> file, const std::string& name)
    : state_(std::make_unique<State>(name)) {
  State& s = *state_;
  if (png_image_begin_read_from_memory(&s.image, file.data(), file.size()) == 0) s.fail();
  require_picture_size(name, s.image.height, s.image.width, /*scales=*/false);
  s.colour = (s.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
}

PngReader::~PngReader() = default;

std::int64_t PngReader::height() const { return state_->image.height; }
std::int64_t PngReader::width() const { return state_->image.width; }
std::int64_t PngReader::channels() const { return state_->colour ? 3 : 1; }

void PngReader::decode(std::vector<std::uint8_t>& bytes) {
  State& s = *state_;
  s.image.format = s.colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  bytes.resize(PNG_IMAGE_SIZE(s.image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&s.image, &black, bytes.data(), 0, nullptr) == 0) s.fail();
}

bool is_png(std::span<const std::uint8_t> file) {
  constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  return file.size() >= kPng.size() && std::memcmp(file.data(), kPng.data(), kPng.size()) == 0;
}

std::string png_decoder_version() { return cat("libpng ", png_libpng_ver); }

}  // namespace podium
