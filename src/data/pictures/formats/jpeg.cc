#include "data/pictures/formats/jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// After <cstdio>, which it needs.
#include <jpeglib.h>
// After <jpeglib.h>.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "base/error.h"

#ifndef LIBJPEG_TURBO_VERSION_NUMBER
#error "Podium needs libjpeg-turbo, which decodes parts of pictures; this is another libjpeg"
#endif

namespace podium {
namespace {

// What the library calls when it gives up: back to the caller, past code that has nothing to
// destroy.
struct Manager {
  jpeg_error_mgr base;
  std::jmp_buf back;
  int damage;  // the first message about data that are not as they should be; 0: none
};

Manager& manager_of(j_common_ptr common) { return *reinterpret_cast<Manager*>(common->err); }

[[noreturn]] void give_up(j_common_ptr common) { std::longjmp(manager_of(common).back, 1); }

void note(j_common_ptr common, int level) {
  if (level >= 0) return;
  const int code = common->err->msg_code;
  const bool damage = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
                      code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
                      code == JWRN_ARITH_BAD_CODE;
  if (!damage) return;
  manager_of(common).damage = code;
  give_up(common);
}

void say_nothing(j_common_ptr) {}

// Columns beside those that are wanted, so that their colours are as in the whole picture: smooth
// upsampling looks at one value of its neighbours.
constexpr std::int64_t kBeside = 4;

// x / 255, rounded, of a product of two bytes; as Pillow computes it.
std::uint8_t product_over_255(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t t = a * b + 128;
  return static_cast<std::uint8_t>((t + (t >> 8)) >> 8);
}

}  // namespace

struct JpegReader::State {
  jpeg_decompress_struct jpeg;
  Manager errors;
  const std::string* name;

  [[noreturn]] void fail() {
    std::array<char, JMSG_LENGTH_MAX> text{};
    errors.base.format_message(reinterpret_cast<j_common_ptr>(&jpeg), text.data());
    throw BadPicture(cat(*name, ": the JPEG picture is damaged: ", text.data()));
  }

  // The functions between these and the library have nothing to destroy.
  bool read_header(const std::uint8_t* bytes, std::size_t size) {
    if (setjmp(errors.back) != 0) return false;
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, bytes, static_cast<unsigned long>(size));
    jpeg_read_header(&jpeg, TRUE);
    return true;
  }
  bool start(int eighths) {
    if (setjmp(errors.back) != 0) return false;
    const bool four = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = four ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg.dct_method = JDCT_ISLOW;
    jpeg.do_fancy_upsampling = TRUE;
    jpeg.scale_num = static_cast<unsigned>(eighths);
    jpeg.scale_denom = 8;
    jpeg_start_decompress(&jpeg);
    return true;
  }
  bool crop(JDIMENSION* left, JDIMENSION* width, JDIMENSION top) {
    if (setjmp(errors.back) != 0) return false;
    if (*left != 0 || *width != jpeg.output_width) jpeg_crop_scanline(&jpeg, left, width);
    if (top != 0) jpeg_skip_scanlines(&jpeg, top);
    return true;
  }
  bool rows(std::uint8_t* to, std::size_t stride, JDIMENSION count) {
    if (setjmp(errors.back) != 0) return false;
    JDIMENSION done = 0;
    while (done < count) {
      JSAMPROW row = to + done * stride;
      const JDIMENSION got = jpeg_read_scanlines(&jpeg, &row, 1);
      if (got == 0) return false;
      done += got;
    }
    return true;
  }
};

JpegReader::JpegReader(std::span<const std::uint8_t> file, const std::string& name)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.jpeg = {};
  s.name = &name;
  s.jpeg.err = jpeg_std_error(&s.errors.base);
  s.errors.base.error_exit = give_up;
  s.errors.base.emit_message = note;
  s.errors.base.output_message = say_nothing;
  s.errors.damage = 0;
  if (!s.read_header(file.data(), file.size())) {
    struct Destroy {  // the destructor does not run
      State& s;
      ~Destroy() { jpeg_destroy_decompress(&s.jpeg); }
    } const destroy{s};
    s.fail();
  }
  try {
    require_picture_size(name, s.jpeg.image_height, s.jpeg.image_width, !is_progressive());
  } catch (...) {
    jpeg_destroy_decompress(&s.jpeg);
    throw;
  }
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&state_->jpeg); }

std::int64_t JpegReader::height() const { return state_->jpeg.image_height; }
std::int64_t JpegReader::width() const { return state_->jpeg.image_width; }
bool JpegReader::is_progressive() const { return state_->jpeg.progressive_mode != FALSE; }

void JpegReader::decode(int eighths, const PictureArea& wanted, PicturePixels& pixels) {
  State& s = *state_;
  if (!s.start(eighths)) s.fail();
  const auto height = std::int64_t{s.jpeg.output_height}, all = std::int64_t{s.jpeg.output_width};
  PODIUM_CHECK(wanted.top >= 0 && wanted.height >= 1 && wanted.top + wanted.height <= height,
               wanted.top, " ", wanted.height, " ", height);
  PODIUM_CHECK(wanted.left >= 0 && wanted.width >= 1 && wanted.left + wanted.width <= all,
               wanted.left, " ", wanted.width, " ", all);
  const std::int64_t begin = std::max<std::int64_t>(wanted.left - kBeside, 0),
                     end = std::min(wanted.left + wanted.width + kBeside, all);
  auto left = static_cast<JDIMENSION>(begin), width = static_cast<JDIMENSION>(end - begin);
  if (!s.crop(&left, &width, static_cast<JDIMENSION>(wanted.top))) s.fail();
  pixels.area = {wanted.top, left, wanted.height, width};
  pixels.allocate();
  if (!s.rows(pixels.row(0), std::size_t{4} * width, static_cast<JDIMENSION>(wanted.height)))
    s.fail();
  if (s.jpeg.out_color_space != JCS_CMYK) return;
  // Adobe's are inverted: 255 is no ink. Others are taken for what they say.
  const bool inverted = s.jpeg.saw_Adobe_marker != 0;
  const std::int64_t count = wanted.height * width;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* const p = pixels.row(0) + 4 * i;
    const std::uint32_t flip = inverted ? 0 : 255, k = p[3] ^ flip;
    for (int c = 0; c < 3; ++c) p[c] = product_over_255(p[c] ^ flip, k);
  }
}

bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == 0xD8 && file[2] == 0xFF;
}

namespace {

// The functions between here and the library have nothing to destroy.
bool compress(jpeg_compress_struct& jpeg, Manager& errors, const std::uint8_t* colours,
              std::int64_t height, std::int64_t width, int quality, unsigned char** file,
              unsigned long* size) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, file, size);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    // The library does not write there.
    auto* row = const_cast<std::uint8_t*>(colours + 3 * width * jpeg.next_scanline);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  return true;
}

}  // namespace

std::vector<std::uint8_t> jpeg_bytes(std::span<const std::uint8_t> colours, std::int64_t height,
                                     std::int64_t width, int quality) {
  PODIUM_CHECK(height > 0 && height <= JPEG_MAX_DIMENSION && width > 0 &&
                   width <= JPEG_MAX_DIMENSION && std::ssize(colours) == 3 * height * width,
               height, " ", width, " ", colours.size());
  jpeg_compress_struct jpeg = {};
  Manager errors = {};
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = give_up;
  errors.base.output_message = say_nothing;
  unsigned char* file = nullptr;
  unsigned long size = 0;
  const bool done = compress(jpeg, errors, colours.data(), height, width, quality, &file, &size);
  jpeg_destroy_compress(&jpeg);
  std::vector<std::uint8_t> bytes;
  if (done) bytes.assign(file, file + size);
  std::free(file);  // the library's
  if (!done) throw std::bad_alloc();
  return bytes;
}

#define PODIUM_TEXT_OF(x) #x
#define PODIUM_TEXT(x) PODIUM_TEXT_OF(x)
std::string jpeg_decoder_version() { return "libjpeg-turbo " PODIUM_TEXT(LIBJPEG_TURBO_VERSION); }
#undef PODIUM_TEXT
#undef PODIUM_TEXT_OF

}  // namespace podium
