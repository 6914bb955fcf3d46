#include "data/storage/npy.h"

#include <bit>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace podium {
namespace {

// What follows `'key':` in the header of an .npy; empty: there is none.
std::string_view header_value(std::string_view header, std::string_view key) {
  const std::string name = cat("'", key, "':");
  const std::size_t at = header.find(name);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + name.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  return header;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::uint8_t> bytes, const std::string& file) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PODIUM_REQUIRE(all.starts_with(kMagic) && bytes.size() >= 12 && bytes[6] >= 1 && bytes[6] <= 3,
                 ExitCode::kData, file,
                 ": does not begin as an .npy of version 1 to 3 does; save it with numpy.save()");
  const bool wide = bytes[6] >= 2;
  std::size_t length = bytes[8] | std::size_t{bytes[9]} << 8;
  if (wide) length |= std::size_t{bytes[10]} << 16 | std::size_t{bytes[11]} << 24;
  const std::size_t begin = wide ? 12 : 10;
  PODIUM_REQUIRE(length <= bytes.size() - begin, ExitCode::kData, file, ": byte 8: the header of ",
                 length, " bytes is longer than the file; save it again");
  const std::string_view header = all.substr(begin, length);
  const std::string_view type = header_value(header, "descr").substr(0, 5),
                         order = header_value(header, "fortran_order");
  const bool has_type = type.size() == 5 && type.front() == '\'' && type.back() == '\'' &&
                        std::string_view("<>|=").find(type[1]) != std::string_view::npos;
  NpyHeader result;
  result.type = has_type ? std::string(type.substr(2, 2)) : "";
  PODIUM_REQUIRE(order.starts_with("False"), ExitCode::kData, file,
                 ": is in Fortran order; save numpy.ascontiguousarray(array)");
  std::string_view shape = header_value(header, "shape");
  PODIUM_REQUIRE(shape.starts_with('('), ExitCode::kData, file, ": its header has no shape");
  shape = shape.substr(1, shape.find(')') - 1);
  while (!shape.empty()) {
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
    if (error != std::errc()) break;
    result.shape.push_back(extent);
    shape.remove_prefix(static_cast<std::size_t>(rest - shape.data()));
    while (shape.starts_with(',') || shape.starts_with(' ')) shape.remove_prefix(1);
  }
  result.swapped =
      has_type && (type[1] == '>' ? std::endian::native == std::endian::little
                                  : type[1] == '<' && std::endian::native == std::endian::big);
  result.begin = begin + length;
  return result;
}

}  // namespace podium
