// Operations on a single token, at a position that is known when they run. They are operations of
// the program's own (graph/op_def.h): every backend runs their references.
#pragma once

#include "graph/op_def.h"

namespace podium {

// Attributes of attention; (q [1, H D], k and v [1, G D], keys and values [T, G D], position i32
// [1]) -> y [1, H D], and the keys and values with k and v at that row. y is what attention has
// there.
extern const OpDef attend_cached_op;
// Attributes of rotary; (x [1, H D], position i32 [1]) -> what rotary makes of x at that row.
extern const OpDef rotary_at_op;

}  // namespace podium
