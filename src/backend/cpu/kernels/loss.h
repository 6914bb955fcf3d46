// Softmax cross-entropy, its gradient, and what is counted (contracts `softmax_cross_entropy`,
// `softmax_cross_entropy_grad`, `mean`, `correct`, `argmax`). Logits z and dz [N, K] in lanes;
// labels as pack_labels leaves them; losses [N].
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

struct SoftmaxShape {
  std::int64_t images = 0;
  std::int64_t classes = 0;
  float smoothing = 0;
};

int softmax_cross_entropy_parts(const SoftmaxShape& shape);
// The loss of each image.
void softmax_cross_entropy(const SoftmaxShape& shape, const float* z, const std::int32_t* labels,
                           float* loss, int part);
// dz alone (loss = nullptr), or both at the price of one; `g` is the gradient of every loss.
void softmax_cross_entropy_grad(const SoftmaxShape& shape, const float* z,
                                const std::int32_t* labels, float g, float* loss, float* dz,
                                int part);

// *mean = image sum of x[N], divided by N.
void batch_mean(std::int64_t images, const float* x, float* mean);

// *count = the images whose label is the argmax of their logits.
void correct(std::int64_t images, std::int64_t classes, const float* z, const std::int32_t* labels,
             std::int32_t* count);

int argmax_parts(std::int64_t images, std::int64_t classes);
// guesses[n], plain, = the first largest of the logits of image n; -1 where one is NaN.
void argmax(std::int64_t images, std::int64_t classes, const float* z, std::int32_t* guesses,
            int part);

}  // namespace podium::cpu
