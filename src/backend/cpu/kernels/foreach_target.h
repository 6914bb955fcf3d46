// The opening of every kernel source, after `#define HWY_TARGET_INCLUDE "its/own/path.cc"`:
// compiles that source once for each target. What it includes next are the *-inl.h files.
#pragma once

#include "backend/cpu/kernels/targets.h"
#include "hwy/foreach_target.h"
