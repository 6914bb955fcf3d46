// One stream of inference: a batch of images in, their logits out, averaged over the views that the
// recipe asks for (data/views.h). The trainer evaluates with it and the Predictor predicts with it,
// one stream a worker. What an image gives depends on neither the batch nor what lies beside it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/bound_executable.h"
#include "tensor/tensor.h"

namespace podium {

// A tensor of floats in memory of somebody else.
struct TensorView {
  std::string name;
  Shape shape;
  const float* values = nullptr;
  std::int64_t elements() const { return shape.elements(); }
};

// The first tensor that holds a value that is not finite; empty: none does.
std::string first_non_finite(std::span<const TensorView> tensors);

// What of the parameters and running statistics of an evaluation program (train/program.h) does not
// agree with `tensors`, for people: `needs "fc.weight" as f32[10, 64], ...`. Empty: nothing; the
// order does not matter.
std::string binding_problem(const Graph& evaluation, std::span<const TensorView> tensors);

class Inference {
 public:
  // `program` is of `evaluation`. The tensors stay where they are for the life of this
  // object, and binding_problem() finds nothing wrong with them.
  Inference(BoundExecutable program, const Graph& evaluation, std::int64_t views,
            std::span<const TensorView> tensors);

  std::int64_t batch() const { return images_shape_[0]; }
  // [batch, C, H, W], for the caller to fill.
  float* images() { return reinterpret_cast<float*>(images_.data()); }
  // Computes logits of the first n images.
  void run(std::int64_t n);
  // [batch, classes]; rows from n on mean nothing.
  const float* logits() const { return reinterpret_cast<const float*>(logits_.data()); }

  std::int64_t arena_bytes() const { return program_.executable().arena_bytes(); }
  std::int64_t batch_bytes() const;  // of images, views and logits

 private:
  BoundExecutable program_;
  Shape images_shape_;
  std::int64_t classes_, views_;
  AlignedBytes images_, logits_, view_image_,
      view_logits_;  // the latter two: of more than one view
};

}  // namespace podium
