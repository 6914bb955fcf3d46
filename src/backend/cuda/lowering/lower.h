// The lowering of each operation: lower_NAME, and that of operations without a kernel.
#pragma once

#include <cstdint>

#include "backend/cuda/lowering/lowering.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {

#define PODIUM_LOWER_DECLARE(Kind, name) \
  void lower_##name(Lowering& lowering, const Node& node, std::int32_t index);
PODIUM_OP_LIST(PODIUM_LOWER_DECLARE)
#undef PODIUM_LOWER_DECLARE

void lower_own_operation(Lowering& lowering, const Node& node, std::int32_t index);

// Kernels of BF16 operands number elements and sides of images by fewer bits than others do. The
// images, or one dimension of a matrix, are filled up to a multiple of 8. Throws UserError(kUsage)
// where an operand of the node is too large.
void require_bf16_size(const Node& node, const Shape& shape);

}  // namespace podium::PODIUM_CUDA_SPACE
