#include "backend/cpu/kernels/products/pack.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/products/pack.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// The tile's `rows` x `columns` corner alone, through a buffer; the rest of what is read counts as
// 0. Writes full rows of 16 (whole_rows), or `rows` floats of `columns` rows.
HWY_INLINE void transpose_corner(const float* from, int64_t from_stride, int64_t rows,
                                 int64_t columns, float* to, int64_t to_stride, bool whole_rows) {
  HWY_ALIGN float in[kLanes * kLanes] = {};
  HWY_ALIGN float out[kLanes * kLanes];
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(in + r * kLanes, from + r * from_stride,
                static_cast<size_t>(columns) * sizeof(float));
  }
  transpose16(in, kLanes, out, kLanes);
  const int64_t width = whole_rows ? kLanes : rows;
  for (int64_t c = 0; c < columns; ++c) {
    std::memcpy(to + c * to_stride, out + c * kLanes, static_cast<size_t>(width) * sizeof(float));
  }
}

void pack_features(int64_t images, int64_t features, Range range, const float* plain,
                   float* lanes) {
  for (int64_t n = 0; n < images; n += kLanes) {
    const int64_t rows = std::min<int64_t>(kLanes, images - n);
    for (int64_t f = range.begin; f < range.end; f += kLanes) {
      const int64_t columns = std::min<int64_t>(kLanes, range.end - f);
      const float* from = plain + n * features + f;
      float* to = lanes + n * features + f * kLanes;
      if (rows == kLanes && columns == kLanes) {
        transpose16(from, features, to, kLanes);
      } else {
        transpose_corner(from, features, rows, columns, to, kLanes, true);
      }
    }
  }
}

void unpack_features(int64_t images, int64_t features, Range range, const float* lanes,
                     float* plain) {
  for (int64_t n = 0; n < images; n += kLanes) {
    const int64_t rows = std::min<int64_t>(kLanes, images - n);
    for (int64_t f = range.begin; f < range.end; f += kLanes) {
      const int64_t columns = std::min<int64_t>(kLanes, range.end - f);
      const float* from = lanes + n * features + f * kLanes;
      float* to = plain + n * features + f;
      if (rows == kLanes && columns == kLanes) {
        transpose16(from, kLanes, to, features);
      } else {
        transpose_corner(from, kLanes, columns, rows, to, features, false);
      }
    }
  }
}

void rows_of_features(int64_t images, int64_t features, Range range, const float* lanes,
                      float* rows) {
  const int64_t padded_images = padded(images);
  for (int64_t n = 0; n < images; n += kLanes) {
    for (int64_t f = range.begin; f < range.end; f += kLanes) {
      const int64_t columns = std::min<int64_t>(kLanes, range.end - f);
      const float* from = lanes + n * features + f * kLanes;
      float* to = rows + f * padded_images + n * kLanes;
      if (columns == kLanes) {
        transpose16(from, kLanes, to, kLanes);
      } else {
        transpose_corner(from, kLanes, columns, kLanes, to, kLanes, true);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(pack_features);
HWY_EXPORT(unpack_features);
HWY_EXPORT(rows_of_features);

namespace {

// Parts own tiles of 16 features of all images: 32 images of 1024 features or more to a part.
int tile_parts(std::int64_t images, std::int64_t features) {
  return parts_of(blocks_of(features), padded(images) * kLanes, 32768);
}
Range part_features(std::int64_t images, std::int64_t features, int part) {
  const Range tiles = share_of(blocks_of(features), tile_parts(images, features), part);
  return {tiles.begin * kLanes, std::min(tiles.end * kLanes, features)};
}

}  // namespace

int pack_lanes_parts(std::int64_t images, std::int64_t features) {
  return tile_parts(images, features);
}
void pack_lanes(std::int64_t images, std::int64_t features, const float* plain, float* lanes,
                int part) {
  PODIUM_DISPATCH(pack_features)
  (images, features, part_features(images, features, part), plain, lanes);
}

int unpack_lanes_parts(std::int64_t images, std::int64_t features) {
  return tile_parts(images, features);
}
void unpack_lanes(std::int64_t images, std::int64_t features, const float* lanes, float* plain,
                  int part) {
  PODIUM_DISPATCH(unpack_features)
  (images, features, part_features(images, features, part), lanes, plain);
}

int lanes_to_rows_parts(std::int64_t images, std::int64_t features) {
  return tile_parts(images, features);
}
void lanes_to_rows(std::int64_t images, std::int64_t features, const float* lanes, float* rows,
                   int part) {
  PODIUM_DISPATCH(rows_of_features)
  (images, features, part_features(images, features, part), lanes, rows);
}

void pack_labels(std::int64_t images, const std::int32_t* plain, std::int32_t* lanes) {
  std::copy(plain, plain + images, lanes);
  std::fill(lanes + images, lanes + padded(images), -1);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
