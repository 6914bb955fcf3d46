// Pictures from files, for `podium predict`: PNG, and IDX (one picture or many, plain or gzip),
// recognised by their first bytes. Grey or colour as the model takes it; colours become grey by
// their luminance, transparency is laid on black. A picture is never resized. And pictures to
// files: PNG, in colour.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"

namespace podium {

// Throws UserError(kData) where the file is missing, damaged, of another format, larger than 256
// MiB (unpacked), or its pictures are not height x width. The set has no labels.
ImageSet read_image_file(const std::string& path, std::int64_t channels, std::int64_t height,
                         std::int64_t width);
// The same of a file in memory, unpacked; `name` stands for its path.
ImageSet parse_image_file(std::span<const std::uint8_t> file, const std::string& name,
                          std::int64_t channels, std::int64_t height, std::int64_t width);

// The bytes of a file, of 256 MiB at most; unpacked, if it is packed. Throws UserError(kData).
std::vector<std::uint8_t> read_whole_file(const std::string& path);

// The bytes of a PNG file, for a picture of red, green and blue bytes [height, width, 3].
std::vector<std::uint8_t> png_bytes(std::span<const std::uint8_t> colours, std::int64_t height,
                                    std::int64_t width);

}  // namespace podium
