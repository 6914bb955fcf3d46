#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace podium {
namespace {

bool aligned(const void* memory, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(memory) % alignment == 0;
}

TEST(Shape, counts_its_elements) {
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 3, 4}).rank(), 3);
  EXPECT_EQ((Shape{7}).elements(), 7);
  EXPECT_EQ((Shape{5, 0, 3}).elements(), 0);
}

TEST(Shape, a_scalar_has_no_extents_and_one_element) {
  EXPECT_EQ(Shape{}.rank(), 0);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Shape, elements_from_an_axis_leave_out_those_before_it) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_EQ(shape.elements_from(0), 120);
  EXPECT_EQ(shape.elements_from(1), 60);
  EXPECT_EQ(shape.elements_from(3), 5);
  EXPECT_EQ(shape.elements_from(4), 1);
}

TEST(Shape, holds_more_elements_than_32_bits_count) {
  EXPECT_EQ((Shape{1 << 20, 1 << 20}).elements(), std::int64_t{1} << 40);
  EXPECT_EQ((TensorType{DType::kF32, {1 << 20, 1 << 20}}).bytes(), std::int64_t{1} << 42);
}

TEST(Shape, one_element_in_braces_is_an_extent_and_a_vector_is_a_list) {
  EXPECT_EQ((Shape{3}).rank(), 1);
  EXPECT_EQ(Shape(std::vector<std::int64_t>{3, 4}), (Shape{3, 4}));
}

TEST(Shape, is_equal_by_extents_and_rank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  Shape shape{2, 3};
  shape[1] = 9;
  EXPECT_EQ(shape, (Shape{2, 9}));
}

TEST(TensorType, prints_as_users_read_it) {
  EXPECT_EQ(to_string(Shape{32, 6, 28, 28}), "[32, 6, 28, 28]");
  EXPECT_EQ(to_string(TensorType{DType::kF32, {32, 10}}), "f32[32, 10]");
  EXPECT_EQ(to_string(TensorType{DType::kI32, {32}}), "i32[32]");
  EXPECT_EQ(to_string(TensorType{DType::kU32, {}}), "u32[]");
}

TEST(TensorType, every_type_has_four_bytes) {
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kU32}) {
    EXPECT_EQ(size_of(dtype), 4U);
    EXPECT_EQ((TensorType{dtype, {3, 5}}).bytes(), 60);
  }
}

TEST(TensorType, is_equal_by_type_and_shape) {
  EXPECT_EQ((TensorType{DType::kF32, {2}}), (TensorType{DType::kF32, {2}}));
  EXPECT_NE((TensorType{DType::kF32, {2}}), (TensorType{DType::kI32, {2}}));
  EXPECT_NE((TensorType{DType::kF32, {2}}), (TensorType{DType::kF32, {3}}));
}

TEST(AlignedBytes, are_aligned_to_64_bytes_and_zero) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{4096}}) {
    const AlignedBytes memory(bytes);
    EXPECT_EQ(memory.size(), bytes);
    EXPECT_TRUE(aligned(memory.data(), 64)) << bytes;
    EXPECT_TRUE(std::all_of(memory.data(), memory.data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(AlignedBytes, large_ones_start_on_a_huge_page) {
  const std::size_t huge = std::size_t{2} << 20;
  const AlignedBytes memory(huge + 5);
  EXPECT_TRUE(aligned(memory.data(), huge));
  EXPECT_EQ(memory.data()[huge + 4], std::byte{0});
}

TEST(AlignedBytes, none_are_none) {
  EXPECT_EQ(AlignedBytes().data(), nullptr);
  EXPECT_EQ(AlignedBytes().size(), 0U);
  EXPECT_EQ(AlignedBytes(0).size(), 0U);
}

TEST(Tensor, starts_as_zeros_of_its_shape) {
  const Tensor tensor(DType::kF32, {3, 5});
  EXPECT_EQ(tensor.elements(), 15);
  EXPECT_EQ(tensor.f32().size(), 15U);
  EXPECT_EQ(to_string(tensor.type()), "f32[3, 5]");
  EXPECT_TRUE(aligned(tensor.data(), 64));
  EXPECT_TRUE(std::ranges::all_of(tensor.f32(), [](float x) { return x == 0; }));
}

TEST(Tensor, may_have_no_elements) {
  const Tensor tensor(DType::kI32, {0, 4});
  EXPECT_TRUE(tensor.i32().empty());
  const Tensor copy = tensor;
  EXPECT_TRUE(copy.i32().empty());
}

TEST(Tensor, a_view_of_another_type_is_refused_and_names_the_tensor) {
  Tensor tensor(DType::kI32, {2, 3});
  const Tensor& constant = tensor;
  EXPECT_NO_THROW(tensor.i32());
  EXPECT_THROW(tensor.f32(), InternalError);
  EXPECT_THROW(tensor.u32(), InternalError);
  EXPECT_THROW(constant.f32(), InternalError);
  try {
    constant.u32();
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("i32[2, 3]"), std::string::npos) << error.what();
  }
}

TEST(Tensor, views_write_through_to_the_memory) {
  Tensor tensor(DType::kU32, {4});
  tensor.u32()[3] = 0xdeadbeefu;
  std::uint32_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(tensor.data()) + 12, 4);
  EXPECT_EQ(word, 0xdeadbeefu);
}

TEST(Tensor, copies_share_nothing) {
  Tensor tensor(DType::kF32, {3});
  tensor.f32()[1] = 5;
  Tensor copy = tensor;
  EXPECT_EQ(copy.type(), tensor.type());
  EXPECT_NE(copy.data(), tensor.data());
  EXPECT_EQ(copy.f32()[1], 5);
  copy.f32()[1] = 6;
  EXPECT_EQ(tensor.f32()[1], 5);
}

TEST(Tensor, assignment_takes_type_and_values) {
  Tensor tensor(DType::kF32, {3});
  tensor.f32()[2] = 7;
  Tensor other(DType::kI32, {100});
  other = tensor;
  EXPECT_EQ(other.type(), tensor.type());
  EXPECT_EQ(other.f32()[2], 7);
  Tensor& alias = other;
  other = alias;
  EXPECT_EQ(other.f32()[2], 7);
}

TEST(Tensor, moves_keep_the_memory) {
  Tensor tensor(DType::kF32, {3});
  const void* memory = tensor.data();
  const Tensor moved = std::move(tensor);
  EXPECT_EQ(moved.data(), memory);
  EXPECT_EQ(moved.elements(), 3);
}

TEST(Tensor, scalars_hold_their_value) {
  EXPECT_EQ(Tensor::scalar(1.5f).f32()[0], 1.5f);
  EXPECT_EQ(to_string(Tensor::scalar(1.5f).type()), "f32[]");
  EXPECT_EQ(Tensor::scalar(std::uint32_t{7}).u32()[0], 7U);
  EXPECT_EQ(to_string(Tensor::scalar(std::uint32_t{7}).type()), "u32[]");
}

TEST(Tensor, a_view_reads_and_writes_memory_of_somebody_else) {
  float memory[6] = {1, 2, 3, 4, 5, 6}, other[6] = {7, 7, 7, 7, 7, 7};
  Tensor view = Tensor::view({DType::kF32, {2, 3}}, memory);
  EXPECT_EQ(view.f32()[5], 6);
  view.f32()[0] = 9;
  EXPECT_EQ(memory[0], 9);
  const Tensor copy = view;  // owns its memory
  view.point_at(other);
  EXPECT_EQ(view.f32()[0], 7);
  EXPECT_EQ(copy.f32()[0], 9);
  memory[0] = 1;
  EXPECT_EQ(copy.f32()[0], 9);
  view = copy;
  EXPECT_NE(view.data(), static_cast<const void*>(other));
}

}  // namespace
}  // namespace podium
