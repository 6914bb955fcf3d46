#include "backend/cuda/tensor_cores.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cuda/kernels/bf16_probe.h"
#include "base/error.h"
#include "base/numerics/tensor_core.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kTerms = 16;  // of a product
constexpr int kRows = 16, kColumns = 8;
constexpr int kChain = 4;
constexpr int kLanes = 32;

// Memory of the device for as long as it lives.
class OwnedMemory {
 public:
  explicit OwnedMemory(std::size_t bytes)
      : memory_(runtime::allocate(static_cast<std::int64_t>(bytes))) {}
  ~OwnedMemory() { runtime::deallocate(memory_); }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* const memory_;
};

// A BF16 number of one of several kinds.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : words_(seed) {}
  std::uint16_t half(int kind) {
    const auto word = static_cast<std::uint32_t>(words_());
    std::uint32_t field = 0;
    switch (kind % 4) {
      case 0: field = (word >> 16) % 255; break;       // of all sizes
      case 1: field = 120 + (word >> 16) % 14; break;  // near each other
      case 2: field = 60 + (word >> 16) % 12; break;   // whose products are about 2^-126
      default:                                         // zeros, and what is no number
        field = (word >> 16) % 16 == 0 ? 255 : (word >> 16) % 3 == 0 ? 0 : 120 + (word >> 20) % 20;
    }
    const std::uint32_t fraction = field == 0 || field == 255 ? word >> 8 & 1u : word & 0x7fu;
    return static_cast<std::uint16_t>((word & 0x8000u) | field << 7 | fraction);
  }
  std::uint32_t low_half() { return static_cast<std::uint32_t>(words_()) & 0xffffu; }

 private:
  std::mt19937 words_;
};

// What the rule makes of one place of a chain.
float by_the_rule(Bf16Order order, float sum, const std::uint16_t* row,
                  const std::uint16_t* column) {
  const TensorCore core = tensor_core_of(order);
  for (int first = 0; first < kTerms; first += core.group)
    sum = tensor_core_sum(core, sum, [&](int i, std::uint16_t& a, std::uint16_t& b) {
      a = row[first + i];
      b = column[first + i];
    });
  return sum;
}

}  // namespace

std::optional<Bf16Order> tensor_core_order(const runtime::DeviceInfo& device) {
  if (device.major < 8) return std::nullopt;
  return device.major == 8 ? Bf16Order::kAmpere : Bf16Order::kHopper;
}

std::string bf16_missing(const runtime::DeviceInfo& device) {
  const std::string capability = cat(device.major, ".", device.minor);
  if (device.major < 8)
    return cat(device.name, " has compute capability ", capability, ", and BF16 needs 8.0");
  if (!code_has_bf16())
    return cat("this program has no code with BF16 for ", device.name, " (compute capability ",
               capability, "): build it with PODIUM_CUDA_ARCHITECTURES=", device.major,
               device.minor);
  return "";
}

Probe probe_tensor_cores(Stream stream, Bf16Order order, int warps, std::uint32_t seed) {
  struct Matrices {
    std::uint16_t a[kChain][kRows][kTerms], b[kChain][kColumns][kTerms];
    float d[kRows][kColumns];
  };
  std::vector<Matrices> drawn(static_cast<std::size_t>(warps));
  Draw draw(seed);
  int kind = 0;
  for (Matrices& m : drawn) {
    for (int link = 0; link < kChain; ++link) {
      for (auto& row : m.a[link])
        for (std::uint16_t& value : row) value = draw.half(kind);
      for (auto& column : m.b[link])
        for (std::uint16_t& value : column) value = draw.half(kind);
    }
    for (auto& row : m.d)
      for (float& value : row)
        value = std::bit_cast<float>(static_cast<std::uint32_t>(draw.half(kind)) << 16 |
                                     draw.low_half());
    ++kind;
  }
  // As lanes hold them.
  const auto lanes = drawn.size() * kLanes;
  std::vector<std::uint32_t> a(lanes * kChain * 4), b(lanes * kChain * 2);
  std::vector<float> d(lanes * 4);
  const auto pair = [](const std::uint16_t* terms, int number) {
    return terms[2 * number] | static_cast<std::uint32_t>(terms[2 * number + 1]) << 16;
  };
  std::size_t at_a = 0, at_b = 0, at_d = 0;
  for (const Matrices& m : drawn) {
    for (int link = 0; link < kChain; ++link)
      for (int lane = 0; lane < kLanes; ++lane) {
        const int group = lane / 4, i = lane % 4;
        for (int half = 0; half < 2; ++half) {
          a[at_a++] = pair(m.a[link][group], i + 4 * half);
          a[at_a++] = pair(m.a[link][group + 8], i + 4 * half);
          b[at_b++] = pair(m.b[link][group], i + 4 * half);
        }
      }
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < 4; ++i) d[at_d++] = m.d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
  const OwnedMemory left(a.size() * sizeof a[0]), right(b.size() * sizeof b[0]),
      sums(d.size() * sizeof d[0]);
  const auto upload = [&](const OwnedMemory& to, const auto& from) {
    runtime::upload(stream, to.as<void>(), from.data(),
                    static_cast<std::int64_t>(from.size() * sizeof from[0]));
  };
  upload(left, a), upload(right, b), upload(sums, d);
  multiply_chains({.stream = stream}, warps, kChain, left.as<std::uint32_t>(),
                  right.as<std::uint32_t>(), sums.as<float>());
  runtime::download(stream, d.data(), sums.as<void>(),
                    static_cast<std::int64_t>(d.size() * sizeof d[0]));
  Probe probe;
  at_d = 0;
  for (const Matrices& m : drawn)
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float expected = m.d[row][column];
        for (int link = 0; link < kChain; ++link)
          expected = by_the_rule(order, expected, m.a[link][row], m.b[link][column]);
        ++probe.sums;
        const float found = d[at_d++];
        probe.differences +=
            std::bit_cast<std::uint32_t>(found) != std::bit_cast<std::uint32_t>(expected) ? 1 : 0;
      }
  return probe;
}

WarpgroupProbe probe_warpgroups(Stream stream, const runtime::DeviceInfo& device, int terms) {
  WarpgroupProbe probe;
  if (device.major != 9 || device.minor != 0) return probe;
  const OwnedMemory flag(sizeof(std::int32_t));
  const Launch warps{.stream = stream}, warpgroups{.stream = stream, .warpgroups = true};
  write_has_warpgroups(warps, flag.as<std::int32_t>());
  std::int32_t has = 0;
  runtime::download(stream, &has, flag.as<void>(), sizeof has);
  probe.has = has != 0;
  if (!probe.has) return probe;
  constexpr int kMostColumns = 256;
  Draw draw(7);
  const auto drawn = [&](int rows) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * terms));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = draw.half(i % 97 == 0 ? 3 : 1);
    return values;
  };
  const std::vector<std::uint16_t> a = drawn(kProbeRows), b = drawn(kMostColumns);
  std::vector<float> found(std::size_t{kProbeRows} * kMostColumns), expected(found.size());
  const OwnedMemory left(a.size() * sizeof a[0]), right(b.size() * sizeof b[0]),
      sums(found.size() * sizeof found[0]);
  runtime::upload(stream, left.as<void>(), a.data(), static_cast<std::int64_t>(a.size() * 2));
  runtime::upload(stream, right.as<void>(), b.data(), static_cast<std::int64_t>(b.size() * 2));
  for (const int columns : {128, kMostColumns})
    for (const bool side_by_side : {false, true}) {
      const auto count = std::size_t{kProbeRows} * static_cast<std::size_t>(columns);
      const auto multiply = [&](const Launch& launch, std::vector<float>& to) {
        multiply_tile(launch, columns, terms, side_by_side, left.as<std::uint16_t>(),
                      right.as<std::uint16_t>(), sums.as<float>());
        runtime::download(stream, to.data(), sums.as<void>(),
                          static_cast<std::int64_t>(count * sizeof to[0]));
      };
      multiply(warps, expected);
      multiply(warpgroups, found);
      for (std::size_t i = 0; i < count; ++i)
        probe.differences +=
            std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(expected[i]) ? 1
                                                                                                : 0;
      probe.sums += static_cast<std::int64_t>(count);
    }
  return probe;
}

}  // namespace podium::PODIUM_CUDA_SPACE
