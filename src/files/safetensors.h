// The safetensors format, which Python's `safetensors` reads and writes: an 8-byte little-endian
// length, a JSON header of that length, then the tensors' bytes, row-major, little-endian, one
// after the other. F32, I32 and U32 are kept; F16 and BF16 are read as F32, which holds all their
// values, and I64 (PyTorch's counters) as I32 where every value fits. The same tensors and metadata
// give the same bytes.
//
// The reader checks everything. Rules, each a UserError (kData) that names the file and the tensor:
//   S1 the file holds the 8 bytes and a header of at most kMaxHeaderBytes
//   S2 the header is one JSON object, in UTF-8, no key twice
//   S3 `__metadata__` maps strings to strings
//   S4 a tensor has exactly dtype, shape and data_offsets; the dtype is one of those above
//   S5 a shape has at most kMaxRank extents, none negative, and their product is below 2^63
//   S6 data_offsets = [begin, end) of exactly the shape's bytes
//   S7 the tensors cover the data without gap or overlap, from its first byte to the file's end
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/file_io.h"
#include "tensor/tensor.h"

namespace podium {

inline constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;
inline constexpr std::size_t kMaxRank = 32;

// A tensor of a file.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// The tensor of that name, or null.
const Tensor* find_tensor(std::span<const NamedTensor> tensors, std::string_view name);

// The contents of a file.
struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::vector<NamedTensor> tensors;  // in the order of their bytes
  // The tensor of that name, or null.
  const Tensor* find(std::string_view name) const { return find_tensor(tensors, name); }
};

// Reads a whole file. Throws UserError(kData) by the rules above, and Stopped at the stop request.
SafetensorsFile read_safetensors(const std::filesystem::path& path, StopToken stop = {});

// The same from memory; `source` names the bytes in errors.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& source);

// How floats are written.
enum class FloatFormat : std::uint8_t { kFp32, kFp16, kBf16 };

// Uses replace_file, so that `path` is never a partial file. Names are non-empty, distinct and not
// `__metadata__`; tensors keep their order. Floats are rounded to the nearest number of the format.
// Throws UserError(kData), which names the tensor, if a finite one is too large for it.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {},
                              FloatFormat floats = FloatFormat::kFp32);

}  // namespace podium
