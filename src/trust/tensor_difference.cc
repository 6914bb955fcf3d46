#include "trust/tensor_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace podium {
namespace {

// FP32 numbers in their order, so that neighbours differ by one: -0 and +0 are one apart.
std::int64_t place_in_order(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? std::int64_t{bits} : -1 - (std::int64_t{bits} & 0x7fffffff);
}

TensorDifference compare(const std::string& name, const Tensor* a, const Tensor* b) {
  TensorDifference d{.name = name};
  if (a == nullptr || b == nullptr || a->type() != b->type()) {
    d.note = a == nullptr   ? "only in the second run"
             : b == nullptr ? "only in the first run"
                            : cat(to_string(a->type()), " and ", to_string(b->type()));
    return d;
  }
  d.values = a->elements();
  const auto* x = static_cast<const float*>(a->data());
  const auto* y = static_cast<const float*>(b->data());
  for (std::int64_t i = 0; i < d.values; ++i) {
    if (std::bit_cast<std::uint32_t>(x[i]) == std::bit_cast<std::uint32_t>(y[i])) continue;
    ++d.different;
    if (a->dtype() == DType::kF32) {
      d.most_ulps = std::max(d.most_ulps, std::abs(place_in_order(x[i]) - place_in_order(y[i])));
      const double apart = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
      d.most_absolute = std::isnan(apart) ? apart : std::max(d.most_absolute, apart);
    }
  }
  return d;
}

}  // namespace

std::vector<TensorDifference> tensor_differences(const Checkpoint& a, const Checkpoint& b) {
  std::vector<TensorDifference> all;
  for (const NamedTensor& t : a.tensors) all.push_back(compare(t.name, &t.tensor, b.find(t.name)));
  for (const NamedTensor& t : b.tensors) {
    if (a.find(t.name) == nullptr) all.push_back(compare(t.name, nullptr, &t.tensor));
  }
  std::erase_if(all, [](const TensorDifference& d) { return d.note.empty() && d.different == 0; });
  return all;
}

}  // namespace podium
