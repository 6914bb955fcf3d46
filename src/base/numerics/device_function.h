// Functions that CUDA kernels call, too: the compiler of kernels builds them for the GPU as well.
#pragma once

#ifdef __CUDACC__
#define PODIUM_DEVICE_FUNCTION __host__ __device__
#else
#define PODIUM_DEVICE_FUNCTION
#endif
