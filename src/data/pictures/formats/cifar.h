// The binary layout of CIFAR-10 (A. Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html): one
// record an image, nothing before or after,
//   byte 0            the label
//   3072 bytes        red, green and blue planes of 32 x 32 pixels, row-major
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/datasets/dataset.h"
#include "files/byte_source.h"

namespace podium {

inline constexpr std::int64_t kCifarSide = 32, kCifarChannels = 3, kCifarClasses = 10;
inline constexpr std::int64_t kCifarRecord = 1 + kCifarChannels * kCifarSide * kCifarSide;

// An empty set of such images.
ImageSet cifar_set();

// Appends the records of a file to the set. Throws UserError(kData), naming `name`, the byte, the
// rule and `remedy`, and leaves the set as it was: the file is empty, ends within a record, has a
// label above 9, or more than `most` records (what lies beyond is not read). Throws Stopped as
// `stop` says.
void append_cifar(ByteSource& bytes, const std::string& name, const std::string& remedy,
                  std::int64_t most, ImageSet& set, StopToken stop = {});

// A sum over the records that does not depend on their order: equal for every copy of the same
// examples, however a mirror shuffled them. By record the first 8 bytes, little-endian, of its
// SHA-256; added modulo 2^64.
std::uint64_t cifar_digest(const ImageSet& set);

}  // namespace podium
