#include "backend/cpu/kernels/loss.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/loss.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/functions-inl.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Sixteen labels.
struct Labels {
  hn::Vec<IntTag> r[kRegisters];
};
HWY_INLINE Labels load_labels(const std::int32_t* p) {
  Labels out;
  for (int i = 0; i < kRegisters; ++i) out.r[i] = hn::LoadU(IntTag(), p + i * kNative);
  return out;
}
// label == k ? yes : no
HWY_INLINE V16 where_label16(const Labels& labels, int64_t k, const V16& yes, const V16& no) {
  V16 out;
  const auto wanted = hn::Set(IntTag(), static_cast<std::int32_t>(k));
  for (int i = 0; i < kRegisters; ++i) {
    out.r[i] =
        hn::IfThenElse(hn::RebindMask(NativeTag(), hn::Eq(labels.r[i], wanted)), yes.r[i], no.r[i]);
  }
  return out;
}
HWY_INLINE V16 max16(const V16& a, const V16& b) {
  V16 out;
  for (int i = 0; i < kRegisters; ++i) out.r[i] = hn::Max(a.r[i], b.r[i]);
  return out;
}

// The class sum: term k joins chain k mod 16.
struct ClassSum {
  V16 chain[kLanes];
  HWY_INLINE ClassSum() {
    for (int j = 0; j < kLanes; ++j) chain[j] = zero16();
  }
  HWY_INLINE void add(int64_t k, const V16& term) {
    V16& c = chain[k % kLanes];
    c = add16(c, term);
  }
  HWY_INLINE V16 tree() {
    for (int width = 1; width < kLanes; width *= 2) {
      for (int j = 0; j < kLanes; j += 2 * width) chain[j] = add16(chain[j], chain[j + width]);
    }
    return chain[0];
  }
};

// Sixteen images: loss where not null, dz where not null (which holds exp(z - max) meanwhile).
void loss_of_block(const SoftmaxShape& shape, const float* z, const std::int32_t* label, float g,
                   float* loss, float* dz) {
  const int64_t classes = shape.classes;
  const float a = shape.smoothing;
  const Labels labels = load_labels(label);
  V16 max = load16(z);
  for (int64_t k = 1; k < classes; ++k) max = max16(max, load16(z + k * kLanes));
  ClassSum sum_e, sum_d;
  V16 own = zero16();
  for (int64_t k = 0; k < classes; ++k) {
    const V16 d = sub16(load16(z + k * kLanes), max);
    const V16 e = exp16(d);
    sum_e.add(k, e);
    if (a != 0) sum_d.add(k, d);
    own = where_label16(labels, k, d, own);
    if (dz != nullptr) store16(dz + k * kLanes, e);
  }
  const V16 s = sum_e.tree();
  const float other = a / static_cast<float>(classes);
  if (loss != nullptr) {
    const V16 target =
        a == 0 ? own : fma16(set16(1.0f - a), own, mul16(set16(other), sum_d.tree()));
    store16(loss, sub16(log16(s), target));
  }
  if (dz == nullptr) return;
  const V16 own_target = set16((1.0f - a) + other), other_target = set16(other), factor = set16(g);
  for (int64_t k = 0; k < classes; ++k) {
    const V16 p = div16(load16(dz + k * kLanes), s);
    const V16 t = where_label16(labels, k, own_target, other_target);
    store16(dz + k * kLanes, mul16(sub16(p, t), factor));
  }
}

float image_sum(int64_t images, const float* x) {
  V16 sum = zero16();
  for (int64_t n = 0; n < images; n += kLanes) {
    const V16 v = load16(x + n);
    sum = add16(sum, images - n >= kLanes ? v : first16(v, static_cast<int>(images - n)));
  }
  return tree_sum16(sum);
}

// The label is right where its logit is above all before it and no less than any after it, which no
// NaN is.
std::int32_t count_correct(int64_t images, int64_t classes, const float* z,
                           const std::int32_t* label) {
  const NativeTag d;
  const IntTag di;
  int64_t count = 0;
  for (int64_t n = 0; n < images; n += kNative) {
    const float* logits = z + n / kLanes * classes * kLanes + n % kLanes;
    const auto labels = hn::LoadU(di, label + n);
    Native own = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    for (int64_t k = 0; k < classes; ++k) {
      const auto here = hn::Eq(labels, hn::Set(di, static_cast<std::int32_t>(k)));
      own = hn::IfThenElse(hn::RebindMask(d, here), hn::LoadU(d, logits + k * kLanes), own);
    }
    auto right = hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(kNative, images - n)));
    for (int64_t k = 0; k < classes; ++k) {
      const Native other = hn::LoadU(d, logits + k * kLanes);
      const auto later = hn::Lt(labels, hn::Set(di, static_cast<std::int32_t>(k)));
      const auto same = hn::Eq(labels, hn::Set(di, static_cast<std::int32_t>(k)));
      const auto ties = hn::RebindMask(d, hn::Or(later, same));
      const auto wins = hn::Or(hn::Gt(own, other), hn::And(ties, hn::Ge(own, other)));
      right = hn::And(right, wins);
    }
    count += static_cast<int64_t>(hn::CountTrue(d, right));
  }
  return static_cast<std::int32_t>(count);
}

// The argmax of sixteen images, in lanes, to the first `count` of guesses.
void argmax_of_block(int64_t classes, const float* z, int64_t count, std::int32_t* guesses) {
  const NativeTag d;
  const IntTag di;
  std::int32_t found[kLanes];
  for (int lane = 0; lane < kLanes; lane += kNative) {
    Native most = hn::LoadU(d, z + lane);
    auto at = hn::Zero(di);
    auto nan = hn::IsNaN(most);
    for (int64_t k = 1; k < classes; ++k) {
      const Native other = hn::LoadU(d, z + k * kLanes + lane);
      const auto more = hn::Gt(other, most);
      most = hn::IfThenElse(more, other, most);
      at = hn::IfThenElse(hn::RebindMask(di, more), hn::Set(di, static_cast<std::int32_t>(k)), at);
      nan = hn::Or(nan, hn::IsNaN(other));
    }
    hn::StoreU(hn::IfThenElse(hn::RebindMask(di, nan), hn::Set(di, -1), at), di, found + lane);
  }
  std::memcpy(guesses, found, static_cast<size_t>(count) * sizeof(std::int32_t));
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(loss_of_block);
HWY_EXPORT(image_sum);
HWY_EXPORT(count_correct);
HWY_EXPORT(argmax_of_block);

int softmax_cross_entropy_parts(const SoftmaxShape& shape) {
  return parts_of(blocks_of(shape.images), shape.classes * kLanes, 4096);
}

void softmax_cross_entropy(const SoftmaxShape& shape, const float* z, const std::int32_t* labels,
                           float* loss, int part) {
  softmax_cross_entropy_grad(shape, z, labels, 0, loss, nullptr, part);
}

void softmax_cross_entropy_grad(const SoftmaxShape& shape, const float* z,
                                const std::int32_t* labels, float g, float* loss, float* dz,
                                int part) {
  const Range blocks = share_of(blocks_of(shape.images), softmax_cross_entropy_parts(shape), part);
  for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
    const std::int64_t offset = b * shape.classes * kLanes;
    PODIUM_DISPATCH(loss_of_block)
    (shape, z + offset, labels + b * kLanes, g, loss == nullptr ? nullptr : loss + b * kLanes,
     dz == nullptr ? nullptr : dz + offset);
  }
}

void batch_mean(std::int64_t images, const float* x, float* mean) {
  *mean = PODIUM_DISPATCH(image_sum)(images, x) / static_cast<float>(images);
}

void correct(std::int64_t images, std::int64_t classes, const float* z, const std::int32_t* labels,
             std::int32_t* count) {
  *count = PODIUM_DISPATCH(count_correct)(images, classes, z, labels);
}

int argmax_parts(std::int64_t images, std::int64_t classes) {
  return parts_of(blocks_of(images), classes * kLanes, 16384);
}
void argmax(std::int64_t images, std::int64_t classes, const float* z, std::int32_t* guesses,
            int part) {
  const Range blocks = share_of(blocks_of(images), argmax_parts(images, classes), part);
  for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
    PODIUM_DISPATCH(argmax_of_block)
    (classes, z + b * classes * kLanes, std::min<std::int64_t>(kLanes, images - b * kLanes),
     guesses + b * kLanes);
  }
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
