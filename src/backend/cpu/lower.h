// One function an operation; a missing one is a link error.
#pragma once

#include <cstdint>

#include "backend/cpu/lowering.h"
#include "ops/ops.h"

namespace podium::cpu {

#define PODIUM_LOWER_DECLARE(Kind, name) \
  void lower_##name(Lowering& lowering, const Node& node, std::int32_t index);
PODIUM_OP_LIST(PODIUM_LOWER_DECLARE)
#undef PODIUM_LOWER_DECLARE
void lower_own_operation(Lowering& lowering, const Node& node, std::int32_t index);

}  // namespace podium::cpu
