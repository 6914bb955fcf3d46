#include "ops/op_list.h"

#include <array>

namespace podium {

std::span<const OpDef* const> all_ops() {
  static const std::array ops = {
#define PODIUM_OP_ADDRESS(Kind, name) &name##_op,
      PODIUM_OP_LIST(PODIUM_OP_ADDRESS)
#undef PODIUM_OP_ADDRESS
  };
  return ops;
}

}  // namespace podium
