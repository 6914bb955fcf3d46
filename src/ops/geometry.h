// The numbers of convolutions, attention, recurrent layers and rotary embedding, for references and
// kernels of all backends. Free of other headers, so that kernels read it.
#pragma once

#include <cstdint>

namespace podium {

struct AttentionAttributes;
struct RecurrentAttributes;
struct PermuteAttributes;
struct RotaryAttributes;
struct Conv2dAttributes;
class Shape;

// x [images][in_channels][in_height][in_width], w [out_channels][in_channels][kernel_height]
// [kernel_width], y [images][out_channels][out_height][out_width].
struct ConvShape {
  std::int64_t images = 0;
  std::int64_t in_channels = 0;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t out_channels = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t kernel_height = 0;
  std::int64_t kernel_width = 0;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_left = 0;

  constexpr std::int64_t in_pixels() const { return in_height * in_width; }
  constexpr std::int64_t out_pixels() const { return out_height * out_width; }
  constexpr std::int64_t taps() const { return kernel_height * kernel_width; }
  constexpr std::int64_t weight_floats() const { return out_channels * in_channels * taps(); }
};

// Attention of `heads` heads over sequences of `tokens` tokens: q [sequences][tokens][heads]
// [features], k and v [sequences][tokens][groups][features].
struct AttentionShape {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t features = 0;
  float scale = 1;
  bool causal = true;
  std::int64_t keys = 0;  // of a sequence

  constexpr std::int64_t heads_of_group() const { return heads / groups; }
  // The distance between rows.
  constexpr std::int64_t query_row() const { return heads * features; }
  constexpr std::int64_t key_row() const { return groups * features; }
  // Where the first row of a head of a sequence begins.
  constexpr std::int64_t query(std::int64_t sequence, std::int64_t head) const {
    return sequence * tokens * query_row() + head * features;
  }
  constexpr std::int64_t key(std::int64_t sequence, std::int64_t group) const {
    return sequence * keys * key_row() + group * features;
  }
  // The keys that a query which sees the whole sequence sees, of this length.
  constexpr std::int64_t keys_within(std::int32_t length) const {
    return length < 1 ? 1 : length < keys ? length : keys;
  }
};

// A recurrent layer of `units` units over sequences of `tokens` tokens: what tokens bring
// [sequences][tokens][gates()], the gates that are kept [sequences][tokens][4 units], the others
// [sequences][tokens][units], states [sequences][units].
struct RecurrentShape {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t units = 0;
  bool reverse = false;
  std::int64_t sums = 4;  // of a unit, one of each gate and of the candidate

  constexpr std::int64_t gates() const { return sums * units; }
  // The token that is read as the `step`-th.
  constexpr std::int64_t token(std::int64_t step) const {
    return reverse ? tokens - 1 - step : step;
  }
};

// Rotary embedding of `heads` heads over sequences of `tokens` tokens: x [rows][heads][features].
struct RotaryShape {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;    // of a sequence
  std::int64_t features = 0;  // of a head
  bool inverse = false;

  constexpr std::int64_t columns() const { return heads * features; }
};

// The axes of x in another order: y [extents[0]][extents[1]][extents[2]] of each image, whose value
// at [i][j][k] lies in x at i * steps[0] + j * steps[1] + k * steps[2].
struct PermuteShape {
  std::int64_t images = 0;
  std::int64_t extents[3] = {};
  std::int64_t steps[3] = {};

  constexpr std::int64_t values() const { return extents[0] * extents[1] * extents[2]; }
};

// A row of an embedding's gradient is summed in runs of so many places, then by the tree.
inline constexpr std::int64_t kEmbeddingRun = 32;
// Sums over rows are runs of so many, each a chain, added in order.
inline constexpr std::int64_t kRowRun = 256;

// Of a convolution of x with w to y, by their shapes; y may be pooled.
ConvShape conv_shape(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y);
// Of queries of this shape.
AttentionShape attention_shape(const AttentionAttributes& a, const Shape& q);
// Of states before the first token of this shape.
RecurrentShape lstm_shape(const RecurrentAttributes& a, const Shape& state);
RecurrentShape gru_shape(const RecurrentAttributes& a, const Shape& state);
// Of x of this shape.
PermuteShape permute_shape(const PermuteAttributes& a, const Shape& x);
RotaryShape rotary_shape(const RotaryAttributes& a, const Shape& x);

}  // namespace podium
