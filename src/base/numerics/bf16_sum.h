// Sums of products of BF16 operands in each order (docs/numerics.md, BF16), one by one.
#pragma once

#include <cstdint>

#include "base/numerics/bf16.h"
#include "base/numerics/tensor_core.h"

namespace podium {

// A run's factors.
struct Bf16Terms {
  float a[kBf16Run] = {}, b[kBf16Run] = {};
};

// `sum` and a run of products.
inline float add_run(Bf16Order order, float sum, const Bf16Terms& terms) {
  const auto &a = terms.a, &b = terms.b;  // a lambda may not capture structured bindings
  if (order == Bf16Order::kAmx) {
    float chains[2] = {0, 0};
    for (int i = 0; i < kBf16Run; ++i) chains[i % 2] = flushed_fma(a[i], b[i], chains[i % 2]);
    return flushed_add(sum, flushed_add(chains[0], chains[1]));
  }
  if (order == Bf16Order::kVdpbf16ps) {
    for (int i = 0; i < kBf16Run; i += 2) sum = add_pair(sum, a[i], b[i], a[i + 1], b[i + 1]);
    return sum;
  }
  const TensorCore core = tensor_core_of(order);
  for (int first = 0; first < kBf16Run; first += core.group)
    sum = tensor_core_sum(core, sum, [&](int i, std::uint16_t& left, std::uint16_t& right) {
      left = bf16_upper(a[first + i]);
      right = bf16_upper(b[first + i]);
    });
  return sum;
}

// A sum in runs, the last of which is filled up with zeros: term(i, a, b) sets the factors of term
// i, which are BF16 numbers. It goes on from `sum`, that of whole runs.
template <typename Term>
float bf16_sum(Bf16Order order, std::int64_t terms, const Term& term, float sum = 0) {
  for (std::int64_t run = 0; run < terms; run += kBf16Run) {
    Bf16Terms factors;
    for (int i = 0; i < kBf16Run && run + i < terms; ++i) term(run + i, factors.a[i], factors.b[i]);
    sum = add_run(order, sum, factors);
  }
  return sum;
}

}  // namespace podium
