// PODIUM_UNROLL before a loop over a few registers: such a loop must vanish, or the registers
// become memory.
#pragma once

#define PODIUM_UNROLL _Pragma("GCC unroll 16")
