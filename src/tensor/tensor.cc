#include "tensor/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace podium {

std::string to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kI32: return "i32";
    case DType::kU32: return "u32";
  }
  return "?";
}

std::int64_t Shape::elements_from(std::int64_t axis) const {
  std::int64_t product = 1;
  for (std::int64_t i = axis; i < rank(); ++i) product *= (*this)[i];
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::int64_t i = 0; i < shape.rank(); ++i) text += cat(i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

std::string to_string(const TensorType& type) {
  return to_string(type.dtype) + to_string(type.shape);
}

AlignedBytes::AlignedBytes(std::size_t bytes) : size_(bytes) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= kHuge ? kHuge : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == kHuge)
    madvise(memory, rounded, MADV_HUGEPAGE);  // a hint; failure costs speed only
#endif
  std::memset(memory, 0, rounded);
  data_.reset(static_cast<std::byte*>(memory));
}

void AlignedBytes::Free::operator()(std::byte* p) const { std::free(p); }

Tensor::Tensor(TensorType type)
    : type_(std::move(type)), memory_(static_cast<std::size_t>(type_.bytes())) {}

Tensor::Tensor(const Tensor& other) : type_(other.type_), memory_(other.memory_.size()) {
  if (memory_.size() != 0) std::memcpy(memory_.data(), other.memory_.data(), memory_.size());
}

Tensor& Tensor::operator=(const Tensor& other) {
  if (this != &other) *this = Tensor(other);
  return *this;
}

Tensor Tensor::scalar(float value) {
  Tensor tensor(DType::kF32, Shape{});
  tensor.f32()[0] = value;
  return tensor;
}

Tensor Tensor::scalar(std::uint32_t value) {
  Tensor tensor(DType::kU32, Shape{});
  tensor.u32()[0] = value;
  return tensor;
}

}  // namespace podium
