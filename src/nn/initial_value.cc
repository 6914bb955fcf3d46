#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "base/numerics/functions.h"
#include "base/numerics/philox.h"
#include "base/thread_pool.h"
#include "nn/network.h"

namespace podium {
namespace {

// values[i] = draw(block of four words, i mod 4).
template <typename Draw>
void draw_values(const PhiloxStream& stream, std::span<float> values, const Draw& draw) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const PhiloxBlock words = stream.block(static_cast<std::uint32_t>(i / 4));
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j)
      values[j] = static_cast<float>(draw(words, j - i));
  }
}

// values[begin, end), begin a multiple of 4, of a normal distribution: two from two words (Box,
// Muller 1958).
inline void draw_normal(const PhiloxStream& stream, double deviation, std::span<float> values,
                        std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; i += 4) {
    const PhiloxBlock words = stream.block(static_cast<std::uint32_t>(i / 4));
    for (std::size_t pair = 0; pair < 4 && i + pair < end; pair += 2) {
      const double radius = std::sqrt(-2.0 * log_f64((words[pair] + 1.0) * 0x1p-32));
      const double turn = words[pair + 1] * 0x1p-32;
      values[i + pair] = static_cast<float>(deviation * (radius * cos_2pi(turn)));
      if (i + pair + 1 < end)
        values[i + pair + 1] = static_cast<float>(deviation * (radius * sin_2pi(turn)));
    }
  }
}

// The same where the processor has fma as an instruction; as a function of the C library it takes
// most of the time, and it gives the same bits.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"), flatten)) void draw_normal_by_fma(const PhiloxStream& stream,
                                                                     double deviation,
                                                                     std::span<float> values,
                                                                     std::size_t begin,
                                                                     std::size_t end) {
  draw_normal(stream, deviation, values, begin, end);
}
bool has_fma() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
constexpr auto draw_normal_by_fma = draw_normal;
constexpr bool has_fma() { return false; }
#endif

// A part is large enough to be worth a thread.
constexpr std::size_t kPart = std::size_t{1} << 16;

void fill_normal(const PhiloxStream& stream, double deviation, std::span<float> values,
                 ThreadPool* pool) {
  const auto draw_part = [&](int part, int) {
    const std::size_t begin = static_cast<std::size_t>(part) * kPart;
    const std::size_t end = std::min(begin + kPart, values.size());
    if (has_fma())
      draw_normal_by_fma(stream, deviation, values, begin, end);
    else
      draw_normal(stream, deviation, values, begin, end);
  };
  const int parts = static_cast<int>((values.size() + kPart - 1) / kPart);
  if (pool != nullptr) return pool->run(parts, draw_part);
  for (int part = 0; part < parts; ++part) draw_part(part, 0);
}

// The centre of filter i is 1 on channel i, all else 0, for as many filters as there are channels.
void pass_channels(const Shape& shape, std::span<float> values) {
  const std::int64_t taps = shape[2] * shape[3], filter = shape[1] * taps;
  const std::int64_t centre = shape[2] / 2 * shape[3] + shape[3] / 2;
  for (std::int64_t i = 0; i < std::min(shape[0], shape[1]); ++i) {
    const auto first = values.begin() + i * filter;
    std::fill_n(first, filter, 0.0f);
    first[i * taps + centre] = 1.0f;
  }
}

void divide_by_deviation(std::span<float> values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const float v : values) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  for (float& v : values) v = static_cast<float>(v / deviation);
}

}  // namespace

Tensor initial_value(const Parameter& parameter, std::uint64_t seed, std::uint32_t position,
                     ThreadPool* pool) {
  Tensor tensor(DType::kF32, parameter.shape);
  const auto values = tensor.f32();
  const PhiloxStream stream(seed, RandomPurpose::kInitialise, position);
  const auto fill_uniform = [&](double bound) {
    draw_values(stream, values, [&](const PhiloxBlock& words, std::size_t i) {
      return bound * (2.0 * uniform01(words[i]) - 1.0);
    });
  };
  const auto fan_in = static_cast<double>(parameter.fan_in);
  switch (parameter.initialiser) {
    case Initialiser::kGlorotUniform:
      fill_uniform(std::sqrt(6.0 / static_cast<double>(parameter.fan_in + parameter.fan_out)));
      break;
    case Initialiser::kFanInUniform: fill_uniform(1.0 / std::sqrt(fan_in)); break;
    case Initialiser::kFanInUnit: fill_uniform(std::sqrt(3.0 / fan_in)); break;
    case Initialiser::kFanOutNormal:
      fill_normal(stream, std::sqrt(2.0 / static_cast<double>(parameter.fan_out)), values, pool);
      break;
    case Initialiser::kUniform: fill_uniform(parameter.bound); break;
    case Initialiser::kNormal: fill_normal(stream, parameter.deviation, values, pool); break;
    case Initialiser::kIdentity:
      fill_uniform(1.0 / std::sqrt(fan_in));
      pass_channels(parameter.shape, values);
      break;
    case Initialiser::kUnitDeviation:
      fill_uniform(1.0 / std::sqrt(fan_in));
      divide_by_deviation(values);
      break;
    case Initialiser::kWhitening:
      PODIUM_CHECK(false, parameter.name, " starts from the training set");
      break;
    case Initialiser::kZeros: break;
    case Initialiser::kOnes: std::ranges::fill(values, 1.0f); break;
  }
  return tensor;
}

}  // namespace podium
