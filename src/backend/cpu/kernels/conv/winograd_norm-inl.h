// Images that are normalised as they are read. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_NORM_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_NORM_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_NORM_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "backend/cpu/kernels/conv/winograd-inl.h"
#include "backend/cpu/kernels/functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

// Reads the pixels of channel c of what the images are made from as those of the images.
template <ActivationKind kKind>
class Normalised {
 public:
  // Rows of the patch that are `zeros` lie outside of the images, too.
  Normalised(const ImageNorm& norm, std::int64_t c, const Patch& patch, const float* zeros)
      : activator_{norm.activation.slope},
        scale_(hn::Set(NativeTag(), norm.scale[c])),
        shift_(hn::Set(NativeTag(), norm.shift[c])) {
    for (int i = 0; i < podium::winograd::kMostPoints; ++i)
      inside_[i] = patch.rows[i] == zeros ? 0 : -1;
  }
  HWY_INLINE Native operator()(int i, const float* p) const {
    const NativeTag d;
    const Native x = activator_.value(hn::MulAdd(hn::LoadU(d, p), scale_, shift_));
    return hn::And(x, hn::BitCast(d, hn::Set(hn::RebindToSigned<NativeTag>(), inside_[i])));
  }

 private:
  Activator<kKind> activator_;
  Native scale_, shift_;
  std::int32_t inside_[podium::winograd::kMostPoints];  // all bits
};

// Calls f(how to read the pixels of channel c). A costly activation has no place here
// (ops/images/conv2d_winograd.cc, W7).
template <typename F>
HWY_INLINE void with_norm(const ImageNorm& norm, std::int64_t c, const Patch& patch,
                          const float* zeros, const F& f) {
  if (norm.scale == nullptr) return f(Plain());
  with_activator(norm.activation, [&](const auto& activator) HWY_ATTR {
    constexpr ActivationKind kKind = std::decay_t<decltype(activator)>::kActivation;
    if constexpr (!is_costly(kKind)) f(Normalised<kKind>(norm, c, patch, zeros));
  });
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_NORM_INL_H_
