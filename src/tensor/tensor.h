// Types and host tensors. A host tensor is contiguous and row-major ([N, C, H, W] for images),
// 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace podium {

// Types of elements: FP32, and signed and unsigned integers of 32 bits.
enum class DType : std::uint8_t { kF32, kI32, kU32 };

// "f32", "i32", "u32".
std::string to_string(DType dtype);
// Bytes of one element.
constexpr std::size_t size_of(DType) { return 4; }

// Extents, outermost first. A scalar has none.
class Shape {
 public:
  Shape() = default;
  // Extents, outermost first.
  Shape(std::initializer_list<std::int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  std::int64_t rank() const { return static_cast<std::int64_t>(extents_.size()); }
  std::int64_t operator[](std::int64_t axis) const {
    PODIUM_CHECK(axis >= 0 && axis < rank(), "axis ", axis, " of rank ", rank());
    return extents_[static_cast<std::size_t>(axis)];
  }
  std::int64_t& operator[](std::int64_t axis) {
    PODIUM_CHECK(axis >= 0 && axis < rank(), "axis ", axis, " of rank ", rank());
    return extents_[static_cast<std::size_t>(axis)];
  }
  // The product of all extents (1 for a scalar), and of those from `axis` on.
  std::int64_t elements() const { return elements_from(0); }
  std::int64_t elements_from(std::int64_t axis) const;
  std::span<const std::int64_t> extents() const { return extents_; }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> extents_;
};

std::string to_string(const Shape& shape);  // "[32, 6, 28, 28]"

// Type of the elements, and shape.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t bytes() const {
    return shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  }
  bool operator==(const TensorType&) const = default;
};

std::string to_string(const TensorType& type);  // "f32[32, 6, 28, 28]"

// Zeroed memory with 64-byte alignment. Large blocks use huge pages where available and are only
// address space until first touched, so a program can state its needs before the machine must
// provide the memory.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Throws std::bad_alloc if there is not enough memory.
  explicit AlignedBytes(std::size_t bytes);
  // Memory of another owner, which must outlive this object; its contents stay as they are.
  static AlignedBytes borrowed(void* memory, std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    std::size_t mapped;  // bytes; 0: from the heap; kBorrowed: not owned
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

// A tensor in host memory. Copies share nothing; moves are cheap.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorType type);  // zeroed
  // A view of memory of another owner, at least type.bytes() long. A copy of the view owns its
  // memory.
  static Tensor view(TensorType type, void* memory);
  // Moves a view to other memory; allocates nothing.
  void point_at(void* memory);
  Tensor(DType dtype, Shape shape) : Tensor(TensorType{dtype, std::move(shape)}) {}
  Tensor(const Tensor& other);
  Tensor& operator=(const Tensor& other);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  std::int64_t elements() const { return type_.shape.elements(); }
  void* data() { return memory_.data(); }
  const void* data() const { return memory_.data(); }

  std::span<float> f32() { return view<float>(DType::kF32); }
  std::span<const float> f32() const { return const_view<float>(DType::kF32); }
  std::span<std::int32_t> i32() { return view<std::int32_t>(DType::kI32); }
  std::span<const std::int32_t> i32() const { return const_view<std::int32_t>(DType::kI32); }
  std::span<std::uint32_t> u32() { return view<std::uint32_t>(DType::kU32); }
  std::span<const std::uint32_t> u32() const { return const_view<std::uint32_t>(DType::kU32); }

  // A tensor without extents.
  static Tensor scalar(float value);
  static Tensor scalar(std::uint32_t value);

 private:
  template <typename T>
  std::span<T> view(DType dtype) {
    PODIUM_CHECK(dtype == type_.dtype, to_string(type_));
    return {reinterpret_cast<T*>(memory_.data()), static_cast<std::size_t>(elements())};
  }
  template <typename T>
  std::span<const T> const_view(DType dtype) const {
    PODIUM_CHECK(dtype == type_.dtype, to_string(type_));
    return {reinterpret_cast<const T*>(memory_.data()), static_cast<std::size_t>(elements())};
  }

  TensorType type_;
  AlignedBytes memory_;
};

}  // namespace podium
