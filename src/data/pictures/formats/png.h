// PNG by libpng: grey or colour, transparency laid on black, 16 bits made 8.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace podium {

// One PNG file in memory, which must outlive it, and so must its name.
class PngReader {
 public:
  // Reads the header. Throws BadPicture (data/pictures/formats/picture.h).
  PngReader(std::span<const std::uint8_t> file, const std::string& name);
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  std::int64_t height() const;
  std::int64_t width() const;
  std::int64_t channels() const;  // 1 or 3
  // The pixels, [height, width, channels]. To be called once. Throws BadPicture.
  void decode(std::vector<std::uint8_t>& bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_png(std::span<const std::uint8_t> file);

// "libpng 1.6.39"
std::string png_decoder_version();

}  // namespace podium
