// The header of NumPy's .npy files, versions 1 to 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace podium {

struct NpyHeader {
  std::string type;      // "f4", "u2": without the order of bytes
  bool swapped = false;  // the bytes of a number are not in this machine's order
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;  // of the numbers in the file
};

// More bytes are never needed to read one of a few dimensions.
inline constexpr std::size_t kMostNpyHeader = 1 << 16;

// Of a file that begins with `bytes`. Throws UserError(kData), which names `file`, if that is no
// .npy, or in Fortran order.
NpyHeader parse_npy_header(std::span<const std::uint8_t> bytes, const std::string& file);

}  // namespace podium
