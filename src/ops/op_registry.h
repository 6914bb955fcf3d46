// Operations of a program's own, by name, for whoever lists operations (`podium bench ops`).
// A model that uses one needs no more than its definition.
#pragma once

#include <vector>

#include "ops/op_list.h"

namespace podium {

// Throws UserError where the name is taken or is not of letters, digits, '-', '_' and '.', or where
// `infer` or `reference` is missing. `op` must live as long as the program. Not while other threads
// look names up.
void register_operation(const OpDef& op);

// all_ops(), then those that were registered.
std::vector<const OpDef*> known_operations();

}  // namespace podium
