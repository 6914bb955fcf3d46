// Writes StableHLO, operation by operation, as the text that XLA's parser takes. Knows nothing of
// Podium's operations; the emitters beside it do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace podium::stablehlo {

// "f32", "i32", "ui32".
std::string element_of(DType dtype);

// A value of the program: its name in the text and its type.
struct HloValue {
  std::string name;     // "%7"
  std::string element;  // "f32", "i32", "ui32", "ui64", "i1"
  Shape shape;
  std::string type() const;  // "tensor<2x3xf32>"
};
std::string type_text(const std::string& element, const Shape& shape);

// A window of a convolution, as StableHLO has it. Pads may be negative.
struct HloWindow {
  std::int64_t stride[2] = {1, 1};
  std::int64_t low[2] = {0, 0}, high[2] = {0, 0};
  std::int64_t lhs_dilation[2] = {1, 1}, rhs_dilation[2] = {1, 1};
};

// Appends operations to the body of a function. Element by element operations take operands of one
// type; a float or an integer stands for a tensor of it.
class Builder {
 public:
  // `precision`: of products, as StableHLO names it: "HIGHEST" or "DEFAULT".
  explicit Builder(std::string precision) : precision_(std::move(precision)) {}

  // What was appended, one line an operation.
  const std::string& text() const { return text_; }

  // An argument of the function.
  HloValue argument(std::size_t number, const TensorType& type) const;

  HloValue constant(float value, const Shape& shape = {});
  // Of these elements, row by row.
  HloValue floats(std::span<const float> values, const Shape& shape);
  HloValue integer(const std::string& element, std::uint64_t value, const Shape& shape = {});

  // `name` is the operation's: "exponential", "add", ...
  HloValue unary(const std::string& name, const HloValue& x);
  HloValue binary(const std::string& name, const HloValue& a, const HloValue& b);
  HloValue add(const HloValue& a, const HloValue& b) { return binary("add", a, b); }
  HloValue sub(const HloValue& a, const HloValue& b) { return binary("subtract", a, b); }
  HloValue mul(const HloValue& a, const HloValue& b) { return binary("multiply", a, b); }
  HloValue div(const HloValue& a, const HloValue& b) { return binary("divide", a, b); }
  HloValue add(const HloValue& a, float b) { return add(a, constant(b, a.shape)); }
  HloValue mul(const HloValue& a, float b) { return mul(a, constant(b, a.shape)); }
  HloValue div(const HloValue& a, float b) { return div(a, constant(b, a.shape)); }
  // a b + c, which XLA may round once or twice.
  HloValue multiply_add(const HloValue& a, const HloValue& b, const HloValue& c) {
    return add(mul(a, b), c);
  }
  // `direction` is EQ, NE, GT, GE, LT or LE.
  HloValue compare(const std::string& direction, const HloValue& a, const HloValue& b);
  HloValue compare(const std::string& direction, const HloValue& a, float b) {
    return compare(direction, a, constant(b, a.shape));
  }
  HloValue select(const HloValue& condition, const HloValue& yes, const HloValue& no);

  HloValue convert(const HloValue& x, const std::string& element);
  HloValue bitcast(const HloValue& x, const std::string& element);
  // FP32 whose lower half is 0. Unlike two conversions, no compiler leaves it out.
  HloValue rounded_to_bf16(const HloValue& x);
  // Itself where it has that shape.
  HloValue reshape(const HloValue& x, const Shape& shape);
  // Axis i of x becomes axis axes[i] of the result.
  HloValue broadcast(const HloValue& x, const Shape& shape, std::span<const std::int64_t> axes);
  HloValue broadcast(const HloValue& scalar, const Shape& shape) {
    return broadcast(scalar, shape, {});
  }
  // A value [C] of each channel, for planes [N, C, ...].
  HloValue of_channels(const HloValue& x, const Shape& planes);
  HloValue transpose(const HloValue& x, std::span<const std::int64_t> axes);
  HloValue reverse(const HloValue& x, std::span<const std::int64_t> axes);
  // [first, first + count) of one axis, each `stride`-th.
  HloValue slice(const HloValue& x, std::int64_t axis, std::int64_t first, std::int64_t count,
                 std::int64_t stride = 1);
  // Zeros around it, and as many as `interior` says between neighbours.
  HloValue pad(const HloValue& x, std::span<const std::int64_t> low,
               std::span<const std::int64_t> high, std::span<const std::int64_t> interior = {});
  HloValue concatenate(std::span<const HloValue> values, std::int64_t axis);
  HloValue iota(const std::string& element, const Shape& shape, std::int64_t axis);
  // Of an axis, `count` from an i32 scalar on; x with others there.
  HloValue dynamic_slice(const HloValue& x, const HloValue& first, std::int64_t count,
                         std::int64_t axis = 0);
  HloValue dynamic_update_slice(const HloValue& x, const HloValue& part, const HloValue& first,
                                std::int64_t axis = 0);

  // Over `axes`, in an order that is XLA's; `name` is "add", "maximum", "and", ...
  HloValue reduce(const HloValue& x, const std::string& name, const HloValue& start,
                  std::span<const std::int64_t> axes);
  HloValue sum(const HloValue& x, std::span<const std::int64_t> axes) {
    return reduce(x, "add", x.element == "f32" ? constant(0) : integer(x.element, 0), axes);
  }
  // The sum of each channel [C] of planes [N, C, ...].
  HloValue channel_sum(const HloValue& planes);

  // Of matrices, over these axes of them.
  HloValue product(const HloValue& a, const HloValue& b, std::int64_t axis_a, std::int64_t axis_b);
  // `dimensions` as StableHLO writes them: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]".
  HloValue convolution(const HloValue& x, const HloValue& w, const std::string& dimensions,
                       const HloWindow& window, const Shape& result);

  // What `count` passes of a loop make of these values. A pass gets its number from 0 on, an i32
  // scalar, and the values that the one before returned, appends operations, and returns values of
  // the same types.
  using Pass =
      std::function<std::vector<HloValue>(const HloValue& number, std::vector<HloValue> values)>;
  std::vector<HloValue> repeat(std::int64_t count, std::vector<HloValue> values, const Pass& pass);

  // What the branch of this number appends and returns; all return values of the same types. The
  // scalar is an i32.
  using Branch = std::function<std::vector<HloValue>()>;
  std::vector<HloValue> choose(const HloValue& number, std::span<const Branch> branches);

  // The same values, of which what follows computes nothing before all of them are computed.
  std::vector<HloValue> barrier(std::vector<HloValue> values);

  // Of a program that runs on `devices` devices at once: which of them this one is, ui32.
  HloValue device_number();
  // Row i goes to device i; the result has the rows of all devices, in their order.
  HloValue all_to_all(const HloValue& rows);
  // The vectors of all devices, one after the other.
  HloValue all_gather(const HloValue& vector, std::int64_t devices);

  // A call of another function of the module, which has one result.
  HloValue make(const std::string& element, const Shape& shape, const std::string& operation);

 private:
  // Of an axis `first`, of the others 0: the names, and the types, each after a comma.
  std::pair<std::string, std::string> place(std::int64_t rank, const HloValue& first,
                                            std::int64_t axis);
  friend class DefaultPrecision;
  std::string precision_;
  std::string text_;
  std::size_t next_ = 0;
};

// While it lives, products have the precision DEFAULT, which is enough for operands of BF16.
class DefaultPrecision {
 public:
  explicit DefaultPrecision(Builder& builder)
      : builder_(builder), before_(std::exchange(builder.precision_, "DEFAULT")) {}
  ~DefaultPrecision() { builder_.precision_ = before_; }
  DefaultPrecision(const DefaultPrecision&) = delete;
  DefaultPrecision& operator=(const DefaultPrecision&) = delete;

 private:
  Builder& builder_;
  std::string before_;
};

}  // namespace podium::stablehlo
