#include "data/pictures/formats/image_file.h"

#include <png.h>

#include <span>

#include "base/error.h"
#include "base/words.h"
#include "data/pictures/formats/idx.h"
#include "data/pictures/formats/picture.h"
#include "data/pictures/formats/png.h"
#include "files/byte_source.h"

namespace podium {
namespace {

const char* const kRemedy = "give a PNG or IDX file";
const char* const kPhotographRemedy = "give a JPEG or PNG file";

struct Wanted {
  const std::string& name;
  std::int64_t channels, height, width;
};

[[noreturn]] void fail(const Wanted& wanted, const std::string& what) {
  throw UserError(cat(wanted.name, ": ", what), ExitCode::kData);
}

void require_size(const Wanted& wanted, std::int64_t height, std::int64_t width) {
  if (height == wanted.height && width == wanted.width) return;
  fail(wanted, cat("the picture is ", height, " x ", width,
                   " pixels (height x width), the model "
                   "takes ",
                   wanted.height, " x ", wanted.width,
                   "; resize or crop it to that with an image program"));
}

// A picture of interleaved bytes, of 1 or 3 channels, into the planes of the model's.
void store(const Wanted& wanted, std::span<const std::uint8_t> pixels, std::int64_t channels,
           ImageSet& set) {
  const auto size = static_cast<std::size_t>(wanted.height * wanted.width);
  const auto from = static_cast<std::size_t>(channels);
  const auto to = static_cast<std::size_t>(wanted.channels);
  PODIUM_CHECK(pixels.size() == size * from);
  set.count = 1;
  set.pixels.resize(size * to);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint8_t* p = pixels.data() + i * from;
    if (to == 1 && from == 3) {  // luminance (Rec. 601), rounded
      set.pixels[i] =
          static_cast<std::uint8_t>((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
      continue;
    }
    for (std::size_t c = 0; c < to; ++c) set.pixels[c * size + i] = p[from == 1 ? 0 : c];
  }
}

void read_png(const Wanted& wanted, std::span<const std::uint8_t> file, ImageSet& set) {
  PngReader reader(file, wanted.name);
  require_size(wanted, reader.height(), reader.width());
  std::vector<std::uint8_t> pixels;
  reader.decode(pixels);
  store(wanted, pixels, reader.channels(), set);
}

void read_pictures_idx(const Wanted& wanted, std::span<const std::uint8_t> file, ImageSet& set) {
  IdxData data = parse_idx(file, wanted.name, {0, kRemedy});
  const auto rank = data.extents.size();
  if (rank < 2 || rank > 3) {
    fail(wanted,
         cat("at byte 3: the IDX file has ", count_text(std::ssize(data.extents), "dimension"),
             ", where a picture has 2 and a file of pictures 3",
             rank == 1 ? " (are these labels?)" : "", "; ", kRemedy));
  }
  if (wanted.channels != 1) {
    fail(wanted, "at byte 3: IDX pictures are grey, the model takes colour; give PNG files");
  }
  require_size(wanted, data.extents[rank - 2], data.extents[rank - 1]);
  set.count = rank == 2 ? 1 : data.extents[0];
  if (set.count == 0) {
    fail(wanted, "at byte 4: the IDX file holds no pictures; give one that holds some");
  }
  set.pixels = std::move(data.bytes);
}

std::vector<std::uint8_t> read_all(ByteSource& source, const std::string& path,
                                   const char* remedy) {
  std::vector<std::uint8_t> bytes;
  constexpr std::size_t kStep = std::size_t{1} << 20;
  while (true) {
    const std::size_t old = bytes.size();
    bytes.resize(old + kStep);
    const std::size_t n = source.read({bytes.data() + old, kStep});
    bytes.resize(old + n);
    if (n < kStep) return bytes;
    PODIUM_REQUIRE(bytes.size() <= (std::size_t{1} << 28), ExitCode::kData, path,
                   ": larger than 256 MiB, the limit for pictures; ", remedy);
  }
}

}  // namespace

ImageSet read_image_file(const std::string& path, std::int64_t channels, std::int64_t height,
                         std::int64_t width) {
  const auto source = open_file(path, kRemedy);
  const std::vector<std::uint8_t> file = read_all(*source, path, kRemedy);
  ImageSet set = parse_image_file(file, source->packed() ? path + " (unpacked)" : path, channels,
                                  height, width);
  set.source = path;
  return set;
}

ImageSet parse_image_file(std::span<const std::uint8_t> file, const std::string& name,
                          std::int64_t channels, std::int64_t height, std::int64_t width) {
  PODIUM_CHECK(channels == 1 || channels == 3, channels);
  const Wanted wanted{name, channels, height, width};
  ImageSet set;
  set.channels = channels;
  set.height = height;
  set.width = width;
  set.source = name;
  if (file.empty()) fail(wanted, cat("the file is empty; ", kRemedy));
  if (is_png(file)) {
    read_png(wanted, file, set);
  } else if (file.size() >= 2 && file[0] == 0 && file[1] == 0) {
    read_pictures_idx(wanted, file, set);
  } else if (file.size() >= 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '7') {
    fail(wanted,
         cat("PBM, PGM and PPM pictures are not supported; convert it to PNG, or ", kRemedy));
  } else {
    fail(wanted, cat("no known picture format starts with these bytes; ", kRemedy));
  }
  return set;
}

std::vector<std::uint8_t> read_whole_file(const std::string& path) {
  const auto source = open_file(path, kPhotographRemedy);
  return read_all(*source, path, kPhotographRemedy);
}

std::vector<std::uint8_t> png_bytes(std::span<const std::uint8_t> colours, std::int64_t height,
                                    std::int64_t width) {
  PODIUM_CHECK(colours.size() == static_cast<std::size_t>(3 * height * width), colours.size());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = PNG_FORMAT_RGB;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::uint8_t> file(size);
  const int written =
      png_image_write_to_memory(&image, file.data(), &size, 0, colours.data(), 0, nullptr);
  PODIUM_CHECK(written != 0, image.message);
  file.resize(size);
  return file;
}

}  // namespace podium
