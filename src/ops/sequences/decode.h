// Operations on a single token of each sequence, at a position that is known when they run. They
// are operations of the program's own (graph/op_def.h): every backend runs their references.
#pragma once

#include "graph/op_def.h"

namespace podium {

// Attributes of attention; (q [B, H D], k and v [B, G D], keys and values [B T, G D], positions and
// origins i32 [B]) -> y [B, H D], and the keys and values: each sequence's are those of the one
// that its origin names, with k and v at its position. y is what attention has there.
extern const OpDef attend_cached_op;
// The same of attention_bf16.
extern const OpDef attend_cached_bf16_op;
// Attributes of rotary; (x [B, H D], positions i32 [B]) -> what rotary makes of x at these rows.
extern const OpDef rotary_at_op;

}  // namespace podium
