// Operations of BF16 operands. They have no kernels yet: the reference computes them on the host.
#include "backend/cuda/lower.h"

namespace podium::PODIUM_CUDA_SPACE {

void lower_conv2d_bf16(Lowering& l, const Node& node, std::int32_t index) {
  lower_own_operation(l, node, index);
}
void lower_conv2d_bf16_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  lower_own_operation(l, node, index);
}
void lower_conv2d_bf16_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  lower_own_operation(l, node, index);
}
void lower_matmul_bf16(Lowering& l, const Node& node, std::int32_t index) {
  lower_own_operation(l, node, index);
}

}  // namespace podium::PODIUM_CUDA_SPACE
