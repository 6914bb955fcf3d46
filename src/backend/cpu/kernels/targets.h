// Which vector instructions the kernels use. Every kernel is compiled for each target, and one is
// chosen when the program starts: the best that the machine has, or the one that the environment
// variable PODIUM_VECTOR_TARGET names. All give the same bits; a target changes the speed alone.
//
// Kernel sources include this header before any of Highway's, and call through PODIUM_DISPATCH.
#pragma once

#include <atomic>
#include <string>
#include <vector>

// Targets without fused multiply-add have no place in the contract; SVE and the narrower x86 sets
// are left out. The baseline on x86 is AVX2 without AES, which Highway would otherwise ask for. On
// other machines the baseline (NEON) is all there is: Highway is told not to look for more, which
// would set function attributes that the compiler's own constructors lack.
#if defined(__x86_64__) || defined(_M_X64)
#ifdef PODIUM_WITHOUT_AVX512  // cmake/PodiumDependencies.cmake says when
#define HWY_DISABLED_TARGETS (~HWY_AVX2)
#else
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif
#define HWY_DISABLE_PCLMUL_AES 1
#else
#define TOOLCHAIN_MISS_SYS_AUXV_H 1
#endif

namespace podium::cpu {

// The targets of this machine, best first: of "avx512", "avx2", "neon".
std::vector<std::string> vector_targets();
// The target in use.
std::string vector_target();
// Uses another one from now on; not to be called while kernels run. UserError if the machine has
// none of that name.
void set_vector_target(const std::string& name);

// Chooses the target, once: UserError if PODIUM_VECTOR_TARGET names none of this machine's. A
// program calls it early to have the error early; kernels call it through PODIUM_DISPATCH.
void choose_vector_target();

namespace internal {
extern std::atomic<bool> vector_target_chosen;
}

}  // namespace podium::cpu

// PODIUM_DISPATCH(f)(arguments): calls f of the target in use; HWY_EXPORT(f) stands before it.
#define PODIUM_DISPATCH(f)                                                                         \
  (static_cast<void>(::podium::cpu::internal::vector_target_chosen.load(std::memory_order_acquire) \
                         ? static_cast<void>(0)                                                    \
                         : ::podium::cpu::choose_vector_target()),                                 \
   HWY_DYNAMIC_DISPATCH(f))
