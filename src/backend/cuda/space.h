// The folder is compiled twice: for GPUs, and for the emulation that the tests run. Each build has
// a namespace of its own, so that a program may hold both.
#pragma once

#ifdef PODIUM_CUDA_EMULATED
#define PODIUM_CUDA_SPACE cuda_emulated
#else
#define PODIUM_CUDA_SPACE cuda
#endif
