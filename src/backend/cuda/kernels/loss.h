// The loss, guesses, and what is counted: of batch-last logits [classes][images], or as is said.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE {

struct SoftmaxShape {
  std::int64_t images, classes;
  float smoothing;
};
void softmax_cross_entropy(const Launch& launch, const SoftmaxShape& shape, ConstFloats z,
                           Each<const std::int32_t> labels, Floats loss);
// `dloss` [images].
void softmax_cross_entropy_grad(const Launch& launch, const SoftmaxShape& shape, ConstFloats z,
                                Each<const std::int32_t> labels, ConstFloats dloss, Floats dz);
// The same of plain logits and gradients [images][classes], which may be one memory. Either result
// may be left out; `dloss` is read for dz alone.
struct SoftmaxRows {
  ConstFloats z;
  Each<const std::int32_t> labels;
  ConstFloats dloss = {};
  Floats loss = {};
  Result dz = {};
};
void softmax_cross_entropy_rows(const Launch& launch, const SoftmaxShape& shape,
                                const SoftmaxRows& rows);
// The image sum of x [images] divided by their number.
void batch_mean(const Launch& launch, std::int64_t images, ConstFloats x, Floats mean);
void argmax(const Launch& launch, std::int64_t images, std::int64_t classes, ConstFloats z,
            Each<std::int32_t> guesses);
void correct(const Launch& launch, std::int64_t images, std::int64_t classes, ConstFloats z,
             Each<const std::int32_t> labels, Each<std::int32_t> count);

}  // namespace podium::PODIUM_CUDA_SPACE
