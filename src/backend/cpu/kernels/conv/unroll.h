// PODIUM_UNROLL before a loop over a few registers: such a loop must vanish, or the registers
// become memory. PODIUM_KEEP_LOOP before one whose constants are to stay in registers: unrolled, it
// would need them all at once, and load each where it is used.
#pragma once

#define PODIUM_UNROLL _Pragma("GCC unroll 16")
#define PODIUM_KEEP_LOOP _Pragma("GCC unroll 1")
