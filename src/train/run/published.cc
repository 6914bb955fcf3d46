#include "train/run/published.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "nn/network.h"
#include "train/loop/checkpoint.h"

namespace podium {
namespace {

constexpr std::string_view kPublishedPrefix = "transformer.", kJoinedPart = ".attn.c_attn.";
constexpr std::array<const char*, 3> kAttentionParts = {"query", "key", "value"};

Tensor transposed(const Tensor& x) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  Tensor y(DType::kF32, Shape{columns, rows});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) y.f32()[c * rows + r] = x.f32()[r * columns + c];
  return y;
}

// Rows [first, first + count), of a matrix or a vector.
Tensor tensor_rows(const Tensor& x, std::int64_t first, std::int64_t count) {
  const std::int64_t row = x.shape().rank() == 1 ? 1 : x.shape()[1];
  Tensor y(DType::kF32, x.shape().rank() == 1 ? Shape{count} : Shape{count, row});
  std::ranges::copy(
      x.f32().subspan(static_cast<std::size_t>(first * row), static_cast<std::size_t>(count * row)),
      y.f32().begin());
  return y;
}

// Whether matrices are [in, out].
bool inputs_come_first(const NamedTensor& joined) {
  const Shape& shape = joined.tensor.shape();
  PODIUM_REQUIRE(shape.rank() == 2 && (shape[1] == 3 * shape[0] || shape[0] == 3 * shape[1]),
                 ExitCode::kData, "\"", joined.name, "\" is ", to_string(shape),
                 "; a GPT's query, key and value are [width, 3 width] or [3 width, width]");
  return shape[1] == 3 * shape[0];
}

}  // namespace

std::vector<NamedTensor> from_published(const std::string& model, std::int64_t positions,
                                        std::vector<NamedTensor> tensors) {
  const auto joined = std::ranges::find_if(tensors, [](const NamedTensor& t) {
    return t.name.find(kJoinedPart) != std::string::npos && t.name.ends_with("weight");
  });
  if (model != "gpt" || joined == tensors.end()) return tensors;
  const bool turned = inputs_come_first(*joined);
  std::vector<NamedTensor> own;
  for (NamedTensor& t : tensors) {
    std::string name =
        t.name.starts_with(kPublishedPrefix) ? t.name.substr(kPublishedPrefix.size()) : t.name;
    Tensor& x = t.tensor;
    const bool is_matrix = x.shape().rank() == 2;
    if (turned && is_matrix && name.starts_with("h.")) x = transposed(x);
    const std::size_t at = name.find(kJoinedPart);
    if (at != std::string::npos && x.shape()[0] % 3 == 0) {
      const std::int64_t rows = x.shape()[0] / 3;
      for (std::size_t i = 0; i < kAttentionParts.size(); ++i)
        own.push_back({cat(name.substr(0, at), ".attn.", kAttentionParts[i], ".",
                           name.substr(at + kJoinedPart.size())),
                       tensor_rows(x, static_cast<std::int64_t>(i) * rows, rows)});
      continue;
    }
    if (name == "lm_head.weight") name = "head.weight";
    if (name == "wpe.weight" && is_matrix && x.shape()[0] > positions)
      x = tensor_rows(x, 0, positions);
    own.push_back({std::move(name), std::move(x)});
  }
  return own;
}

namespace {

// Of equal widths, one below the other.
Tensor stacked(const std::vector<const Tensor*>& parts) {
  const Shape& one = parts.front()->shape();
  const std::int64_t rows = one[0] * std::ssize(parts);
  Tensor all(DType::kF32, one.rank() == 1 ? Shape{rows} : Shape{rows, one[1]});
  auto to = all.f32().begin();
  for (const Tensor* part : parts) to = std::ranges::copy(part->f32(), to).out;
  return all;
}

}  // namespace

std::vector<NamedTensor> to_published(const std::string& model,
                                      const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> list;
  for (const NamedTensor& t : tensors) {
    if (!is_of_network(t.name)) continue;
    if (model != "gpt") {
      list.push_back(t);
      continue;
    }
    std::string name = t.name;
    Tensor x = t.tensor;
    const auto begins = [&](const char* part) {
      const std::string all = cat(".attn.", part, ".");
      const std::size_t at = t.name.find(all);
      return at == std::string::npos ? std::string() : t.name.substr(at + all.size());
    };
    if (!begins(kAttentionParts[1]).empty() || !begins(kAttentionParts[2]).empty()) continue;
    if (const std::string end = begins(kAttentionParts[0]); !end.empty()) {
      const std::string block = t.name.substr(0, t.name.find(".attn."));
      std::vector<const Tensor*> parts;
      for (const char* part : kAttentionParts)
        parts.push_back(find_tensor(tensors, cat(block, ".attn.", part, ".", end)));
      x = stacked(parts);
      name = cat(block, kJoinedPart, end);
    }
    if (name.starts_with("h.") && x.shape().rank() == 2) x = transposed(x);
    list.push_back(
        {name == "head.weight" ? "lm_head.weight" : cat(kPublishedPrefix, name), std::move(x)});
  }
  return list;
}

}  // namespace podium
