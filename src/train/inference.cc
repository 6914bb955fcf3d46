#include "train/inference.h"

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
  std::map<std::string, const TensorView*> given;
  for (const TensorView& tensor : tensors) given.emplace(tensor.name, &tensor);
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

Inference::Inference(BoundExecutable program, const Graph& evaluation, std::int64_t views,
                     std::span<const TensorView> tensors)
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
  program_.bind_input(kImages, (views_ > 1 ? view_image_ : images_).data());
  program_.bind_output(kLogits, (views_ > 1 ? view_logits_ : logits_).data());
  for (const TensorView& tensor : tensors) program_.bind_input(tensor.name, tensor.values);
}

void Inference::run(std::int64_t n) {
  if (views_ == 1) {
    program_.run();
    return;
  }
  const std::int64_t size = images_shape_.elements_from(1);
  float* const mean = floats(logits_);
  for (int view = 0; view < view_count(views_); ++view) {
    for (std::int64_t i = 0; i < n; ++i)
      make_view(views_, view, images_shape_[1], images_shape_[2], images_shape_[3],
                images() + i * size, floats(view_image_) + i * size);
    program_.run();
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
