#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace podium {
namespace {

constexpr std::size_t kBorrowed = std::numeric_limits<std::size_t>::max();

}  // namespace

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
  constexpr std::size_t kHuge = std::size_t{2} << 20, kPage = std::size_t{64} << 10, kLine = 64;
  if (bytes < kHuge) {
    const std::size_t rounded = std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
    void* memory = std::aligned_alloc(kLine, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, rounded);
    data_ = {static_cast<std::byte*>(memory), Free{0}};
    return;
  }
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  // More than is needed, and what is not aligned goes back; so does the rest of the last huge page,
  // which would count as used once a byte of it is.
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage, mapped = rounded + kHuge;
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(memory);
  const std::size_t before = (kHuge - reinterpret_cast<std::uintptr_t>(begin) % kHuge) % kHuge;
  if (before != 0) munmap(begin, before);
  munmap(begin + before + rounded, kHuge - before);
  data_ = {begin + before, Free{rounded}};
#ifdef MADV_HUGEPAGE
  madvise(data_.get(), rounded, MADV_HUGEPAGE);  // a hint; failure costs speed only
#endif
}

AlignedBytes AlignedBytes::borrowed(void* memory, std::size_t bytes) {
  AlignedBytes view;
  view.data_ = {static_cast<std::byte*>(memory), Free{kBorrowed}};
  view.size_ = bytes;
  return view;
}

void AlignedBytes::Free::operator()(std::byte* p) const {
  if (mapped == kBorrowed) return;
  if (mapped != 0)
    munmap(p, mapped);
  else
    std::free(p);
}

Tensor::Tensor(TensorType type)
    : type_(std::move(type)), memory_(static_cast<std::size_t>(type_.bytes())) {}

Tensor Tensor::view(TensorType type, void* memory) {
  Tensor tensor;
  tensor.type_ = std::move(type);
  tensor.point_at(memory);
  return tensor;
}

void Tensor::point_at(void* memory) {
  memory_ = AlignedBytes::borrowed(memory, static_cast<std::size_t>(type_.bytes()));
}

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
