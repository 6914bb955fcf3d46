#include "train/inference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "base/error.h"
#include "data/views.h"

namespace podium {
namespace {

constexpr const char *kImages = "images", *kLogits = "logits";

std::size_t float_bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.elements()) * sizeof(float);
}

float* floats(const AlignedBytes& memory) { return reinterpret_cast<float*>(memory.data()); }

std::map<std::string, const TensorView*> by_name(std::span<const TensorView> tensors) {
  std::map<std::string, const TensorView*> map;
  for (const TensorView& tensor : tensors) map.emplace(tensor.name, &tensor);
  return map;
}

}  // namespace

std::string first_non_finite(std::span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    bool finite = true;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      finite &= (std::bit_cast<std::uint32_t>(tensor.values[i]) & 0x7f800000u) != 0x7f800000u;
    if (!finite) return tensor.name;
  }
  return "";
}

std::string binding_problem(const Graph& evaluation, std::span<const TensorView> tensors) {
  auto given = by_name(tensors);
  for (const NamedValue& input : evaluation.inputs()) {
    if (input.name == kImages) continue;
    const Shape& shape = evaluation.shape(input.value);
    const auto found = given.find(input.name);
    if (found == given.end()) return cat("needs \"", input.name, "\" as ", to_string(shape));
    if (found->second->shape != shape)
      return cat("needs \"", input.name, "\" as ", to_string(shape), ", not ",
                 to_string(found->second->shape));
    given.erase(found);
  }
  return given.empty() ? "" : cat("has no \"", given.begin()->first, "\"");
}

Inference::Inference(std::unique_ptr<Executable> program, const Graph& evaluation,
                     std::int64_t views, std::span<const TensorView> tensors)
    : program_(std::move(program)),
      images_shape_(evaluation.shape(evaluation.input(kImages))),
      views_(views) {
  const Shape& logits = evaluation.shape(evaluation.output(kLogits));
  classes_ = logits[1];
  images_ = AlignedBytes(float_bytes(images_shape_));
  logits_ = AlignedBytes(float_bytes(logits));
  if (views_ > 1) {
    view_image_ = AlignedBytes(images_.size());
    view_logits_ = AlignedBytes(logits_.size());
  }
  const auto given = by_name(tensors);
  for (const NamedValue& input : evaluation.inputs()) {
    const AlignedBytes& images = views_ > 1 ? view_image_ : images_;
    inputs_.push_back(input.name == kImages ? static_cast<const void*>(images.data())
                                            : given.at(input.name)->values);
  }
}

void Inference::run(std::int64_t n) {
  if (views_ == 1) {
    program_->run(inputs_, std::array<void*, 1>{logits_.data()});
    return;
  }
  const std::int64_t size = images_shape_.elements_from(1);
  float* const mean = floats(logits_);
  for (int view = 0; view < view_count(views_); ++view) {
    for (std::int64_t i = 0; i < n; ++i)
      make_view(views_, view, images_shape_[1], images_shape_[2], images_shape_[3],
                images() + i * size, floats(view_image_) + i * size);
    program_->run(inputs_, std::array<void*, 1>{view_logits_.data()});
    // The weights are powers of two: each product is exact, and one addition a view is rounded.
    const float weight = view_weight(views_, view);
    for (std::int64_t i = 0; i < n * classes_; ++i)
      mean[i] = (view == 0 ? 0.0f : mean[i]) + weight * floats(view_logits_)[i];
  }
}

std::int64_t Inference::batch_bytes() const {
  return static_cast<std::int64_t>(images_.size() + logits_.size() + view_image_.size() +
                                   view_logits_.size());
}

}  // namespace podium
