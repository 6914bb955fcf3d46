#include "compile/stablehlo/builder.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <utility>

namespace podium::stablehlo {
namespace {

std::string list(std::span<const std::int64_t> numbers) {
  std::ostringstream out;
  for (std::size_t i = 0; i < numbers.size(); ++i) out << (i == 0 ? "" : ", ") << numbers[i];
  return cat("[", out.str(), "]");
}
std::string pair(const std::int64_t (&two)[2]) { return list(two); }

// All devices are one group.
std::string group_of(std::int64_t devices) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  return cat("dense<[", list(numbers), "]> : tensor<1x", devices, "xi64>");
}

std::string hex(std::uint32_t bits) {
  std::ostringstream out;
  out << "0x" << std::hex << std::uppercase << std::setw(8) << std::setfill('0') << bits;
  return out.str();
}

}  // namespace

std::string element_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kI32: return "i32";
    case DType::kU32: return "ui32";
  }
  PODIUM_CHECK(false, "no such type");
}

std::string type_text(const std::string& element, const Shape& shape) {
  std::string text = "tensor<";
  for (const std::int64_t extent : shape.extents()) text += cat(extent, "x");
  return text + element + ">";
}

std::string HloValue::type() const { return type_text(element, shape); }

HloValue Builder::make(const std::string& element, const Shape& shape,
                       const std::string& operation) {
  HloValue value{cat("%", next_++), element, shape};
  text_ += cat("    ", value.name, " = ", operation, "\n");
  return value;
}

HloValue Builder::argument(std::size_t number, const TensorType& type) const {
  return {cat("%arg", number), element_of(type.dtype), type.shape};
}

HloValue Builder::constant(float value, const Shape& shape) {
  return make("f32", shape,
              cat("stablehlo.constant dense<", hex(std::bit_cast<std::uint32_t>(value)),
                  "> : ", type_text("f32", shape)));
}

HloValue Builder::floats(std::span<const float> values, const Shape& shape) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text = "stablehlo.constant dense<\"0x";
  for (const float value : values)
    for (int byte = 0; byte < 4; ++byte) {  // the lowest first
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) >> (8 * byte);
      text += {kDigits[bits >> 4 & 15], kDigits[bits & 15]};
    }
  return make("f32", shape, cat(text, "\"> : ", type_text("f32", shape)));
}

HloValue Builder::integer(const std::string& element, std::uint64_t value, const Shape& shape) {
  const std::string number = element == "i1" ? (value != 0 ? "true" : "false") : cat(value);
  return make(element, shape,
              cat("stablehlo.constant dense<", number, "> : ", type_text(element, shape)));
}

HloValue Builder::unary(const std::string& name, const HloValue& x) {
  return make(x.element, x.shape, cat("stablehlo.", name, " ", x.name, " : ", x.type()));
}

HloValue Builder::binary(const std::string& name, const HloValue& a, const HloValue& b) {
  PODIUM_CHECK(a.type() == b.type(), name, " of ", a.type(), " and ", b.type());
  return make(a.element, a.shape,
              cat("stablehlo.", name, " ", a.name, ", ", b.name, " : ", a.type()));
}

HloValue Builder::compare(const std::string& direction, const HloValue& a, const HloValue& b) {
  PODIUM_CHECK(a.type() == b.type(), direction, " of ", a.type(), " and ", b.type());
  const char* const kind = a.element == "f32"         ? "FLOAT"
                           : a.element.front() == 'u' ? "UNSIGNED"
                                                      : "SIGNED";
  return make("i1", a.shape,
              cat("stablehlo.compare ", direction, ", ", a.name, ", ", b.name, ", ", kind, " : (",
                  a.type(), ", ", a.type(), ") -> ", type_text("i1", a.shape)));
}

HloValue Builder::select(const HloValue& condition, const HloValue& yes, const HloValue& no) {
  PODIUM_CHECK(yes.type() == no.type() && condition.shape == yes.shape, "select of ",
               condition.type(), ", ", yes.type(), " and ", no.type());
  return make(yes.element, yes.shape,
              cat("stablehlo.select ", condition.name, ", ", yes.name, ", ", no.name, " : ",
                  condition.type(), ", ", yes.type()));
}

HloValue Builder::convert(const HloValue& x, const std::string& element) {
  return make(
      element, x.shape,
      cat("stablehlo.convert ", x.name, " : (", x.type(), ") -> ", type_text(element, x.shape)));
}

HloValue Builder::bitcast(const HloValue& x, const std::string& element) {
  if (x.element == element) return x;
  return make(element, x.shape,
              cat("stablehlo.bitcast_convert ", x.name, " : (", x.type(), ") -> ",
                  type_text(element, x.shape)));
}

HloValue Builder::rounded_to_bf16(const HloValue& x) {
  return make(x.element, x.shape,
              cat("stablehlo.reduce_precision ", x.name, ", format = e8m7 : ", x.type()));
}

HloValue Builder::reshape(const HloValue& x, const Shape& shape) {
  if (x.shape == shape) return x;
  return make(
      x.element, shape,
      cat("stablehlo.reshape ", x.name, " : (", x.type(), ") -> ", type_text(x.element, shape)));
}

HloValue Builder::broadcast(const HloValue& x, const Shape& shape,
                            std::span<const std::int64_t> axes) {
  return make(x.element, shape,
              cat("stablehlo.broadcast_in_dim ", x.name, ", dims = ", list(axes), " : (", x.type(),
                  ") -> ", type_text(x.element, shape)));
}

HloValue Builder::of_channels(const HloValue& x, const Shape& planes) {
  const std::int64_t axis[] = {1};
  return broadcast(x, planes, axis);
}

HloValue Builder::transpose(const HloValue& x, std::span<const std::int64_t> axes) {
  std::vector<std::int64_t> extents;
  for (const std::int64_t axis : axes) extents.push_back(x.shape[axis]);
  const Shape shape(std::move(extents));
  return make(x.element, shape,
              cat("stablehlo.transpose ", x.name, ", dims = ", list(axes), " : (", x.type(),
                  ") -> ", type_text(x.element, shape)));
}

HloValue Builder::reverse(const HloValue& x, std::span<const std::int64_t> axes) {
  return make(x.element, x.shape,
              cat("stablehlo.reverse ", x.name, ", dims = ", list(axes), " : ", x.type()));
}

HloValue Builder::slice(const HloValue& x, std::int64_t axis, std::int64_t first,
                        std::int64_t count, std::int64_t stride) {
  if (first == 0 && count == x.shape[axis] && stride == 1) return x;
  std::string ranges;
  Shape shape = x.shape;
  for (std::int64_t i = 0; i < x.shape.rank(); ++i) {
    const std::int64_t begin = i == axis ? first : 0,
                       end = i == axis ? first + (count - 1) * stride + 1 : x.shape[i];
    ranges += cat(i == 0 ? "" : ", ", begin, ":", end);
    if (i == axis && stride != 1) ranges += cat(":", stride);
  }
  shape[axis] = count;
  return make(x.element, shape,
              cat("stablehlo.slice ", x.name, " [", ranges, "] : (", x.type(), ") -> ",
                  type_text(x.element, shape)));
}

HloValue Builder::pad(const HloValue& x, std::span<const std::int64_t> low,
                      std::span<const std::int64_t> high, std::span<const std::int64_t> interior) {
  std::vector<std::int64_t> between(low.size(), 0);
  std::ranges::copy(interior, between.begin());
  Shape shape = x.shape;
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    const auto axis = static_cast<std::size_t>(i);
    shape[i] += low[axis] + high[axis] + (shape[i] - 1) * between[axis];
  }
  if (shape == x.shape) return x;
  const HloValue zero = x.element == "f32" ? constant(0) : integer(x.element, 0);
  return make(x.element, shape,
              cat("stablehlo.pad ", x.name, ", ", zero.name, ", low = ", list(low),
                  ", high = ", list(high), ", interior = ", list(between), " : (", x.type(), ", ",
                  zero.type(), ") -> ", type_text(x.element, shape)));
}

HloValue Builder::concatenate(std::span<const HloValue> values, std::int64_t axis) {
  if (values.size() == 1) return values[0];
  std::string names, types;
  Shape shape = values[0].shape;
  shape[axis] = 0;
  for (const HloValue& value : values) {
    names += (names.empty() ? "" : ", ") + value.name;
    types += (types.empty() ? "" : ", ") + value.type();
    shape[axis] += value.shape[axis];
  }
  return make(values[0].element, shape,
              cat("stablehlo.concatenate ", names, ", dim = ", axis, " : (", types, ") -> ",
                  type_text(values[0].element, shape)));
}

HloValue Builder::iota(const std::string& element, const Shape& shape, std::int64_t axis) {
  return make(element, shape, cat("stablehlo.iota dim = ", axis, " : ", type_text(element, shape)));
}

std::pair<std::string, std::string> Builder::place(std::int64_t rank, const HloValue& first,
                                                   std::int64_t axis) {
  const std::string zero = rank > 1 ? integer(first.element, 0).name : "";
  std::string names, types;
  for (std::int64_t i = 0; i < rank; ++i) {
    names += ", " + (i == axis ? first.name : zero);
    types += ", " + first.type();
  }
  return {names, types};
}

HloValue Builder::dynamic_slice(const HloValue& x, const HloValue& first, std::int64_t count,
                                std::int64_t axis) {
  std::vector<std::int64_t> extents(x.shape.extents().begin(), x.shape.extents().end());
  extents[static_cast<std::size_t>(axis)] = count;
  const auto [names, types] = place(x.shape.rank(), first, axis);
  const std::string sizes = list(extents);
  const Shape shape(std::move(extents));
  return make(x.element, shape,
              cat("stablehlo.dynamic_slice ", x.name, names, ", sizes = ", sizes, " : (", x.type(),
                  types, ") -> ", type_text(x.element, shape)));
}

HloValue Builder::dynamic_update_slice(const HloValue& x, const HloValue& part,
                                       const HloValue& first, std::int64_t axis) {
  const auto [names, types] = place(x.shape.rank(), first, axis);
  return make(x.element, x.shape,
              cat("stablehlo.dynamic_update_slice ", x.name, ", ", part.name, names, " : (",
                  x.type(), ", ", part.type(), types, ") -> ", x.type()));
}

HloValue Builder::reduce(const HloValue& x, const std::string& name, const HloValue& start,
                         std::span<const std::int64_t> axes) {
  std::vector<std::int64_t> extents;
  for (std::int64_t i = 0; i < x.shape.rank(); ++i) {
    bool is_summed = false;
    for (const std::int64_t axis : axes) is_summed = is_summed || axis == i;
    if (!is_summed) extents.push_back(x.shape[i]);
  }
  const Shape shape(std::move(extents));
  return make(x.element, shape,
              cat("stablehlo.reduce(", x.name, " init: ", start.name, ") applies stablehlo.", name,
                  " across dimensions = ", list(axes), " : (", x.type(), ", ", start.type(),
                  ") -> ", type_text(x.element, shape)));
}

HloValue Builder::channel_sum(const HloValue& planes) {
  std::vector<std::int64_t> axes = {0};
  for (std::int64_t i = 2; i < planes.shape.rank(); ++i) axes.push_back(i);
  return sum(planes, axes);
}

HloValue Builder::product(const HloValue& a, const HloValue& b, std::int64_t axis_a,
                          std::int64_t axis_b) {
  const Shape shape{a.shape[1 - axis_a], b.shape[1 - axis_b]};
  return make(a.element, shape,
              cat("stablehlo.dot_general ", a.name, ", ", b.name, ", contracting_dims = [", axis_a,
                  "] x [", axis_b, "], precision = [", precision_, ", ", precision_, "] : (",
                  a.type(), ", ", b.type(), ") -> ", type_text(a.element, shape)));
}

HloValue Builder::convolution(const HloValue& x, const HloValue& w, const std::string& dimensions,
                              const HloWindow& window, const Shape& result) {
  const std::string precision = cat("#stablehlo<precision ", precision_, ">");
  return make(x.element, result,
              cat("stablehlo.convolution(", x.name, ", ", w.name, ") dim_numbers = ", dimensions,
                  ", window = {stride = ", pair(window.stride), ", pad = [[", window.low[0], ", ",
                  window.high[0], "], [", window.low[1], ", ", window.high[1], "]], lhs_dilate = ",
                  pair(window.lhs_dilation), ", rhs_dilate = ", pair(window.rhs_dilation),
                  "} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, "
                  "precision_config = [",
                  precision, ", ", precision, "]} : (", x.type(), ", ", w.type(), ") -> ",
                  type_text(x.element, result)));
}

std::vector<HloValue> Builder::repeat(std::int64_t count, std::vector<HloValue> values,
                                      const Pass& pass) {
  values.insert(values.begin(), integer("i32", 0));
  const std::string name = cat("%", next_++);
  // The values of a pass are the arguments of a block of its own.
  const auto begin_block = [&](const std::string& prefix, std::vector<HloValue>& arguments) {
    std::string list;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      arguments[i].name = cat("%", prefix, name.substr(1), "_", i);
      list += cat(i == 0 ? "" : ", ", arguments[i].name, ": ", arguments[i].type());
    }
    return cat("{\n    ^bb0(", list, "):\n");
  };
  const auto names_and_types = [](const std::vector<HloValue>& all) {
    std::string names, types;
    for (const HloValue& value : all) {
      names += (names.empty() ? "" : ", ") + value.name;
      types += (types.empty() ? "" : ", ") + value.type();
    }
    return std::pair(names, types);
  };
  const auto [start, types] = names_and_types(values);
  std::string before = std::exchange(text_, "");

  std::vector<HloValue> arguments = values;
  text_ = begin_block("c", arguments);
  const HloValue goes_on =
      compare("LT", arguments[0], integer("i32", static_cast<std::uint64_t>(count)));
  text_ += cat("    stablehlo.return ", goes_on.name, " : ", goes_on.type(), "\n    }, ");
  arguments = values;
  text_ += begin_block("b", arguments);
  const HloValue number = arguments[0];
  std::vector<HloValue> results = pass(number, {arguments.begin() + 1, arguments.end()});
  results.insert(results.begin(), add(number, integer("i32", 1)));
  const auto [last, last_types] = names_and_types(results);
  PODIUM_CHECK(last_types == types, last_types, " after a pass on ", types);
  text_ += cat("    stablehlo.return ", last, " : ", types, "\n    }");
  text_ = cat(before, "    ", name, ":", values.size(), " = \"stablehlo.while\"(", start, ") (",
              std::exchange(text_, ""), ") : (", types, ") -> (", types, ")\n");
  for (std::size_t i = 0; i < values.size(); ++i) values[i].name = cat(name, "#", i);
  return {values.begin() + 1, values.end()};
}

std::vector<HloValue> Builder::choose(const HloValue& number, std::span<const Branch> branches) {
  std::string before = std::exchange(text_, ""), regions, types;
  std::vector<HloValue> first;
  for (const Branch& branch : branches) {
    const std::vector<HloValue> results = branch();
    std::string names, its_types;
    for (const HloValue& value : results) {
      names += (names.empty() ? "" : ", ") + value.name;
      its_types += (its_types.empty() ? "" : ", ") + value.type();
    }
    if (regions.empty()) first = results, types = its_types;
    PODIUM_CHECK(its_types == types && !types.empty(), its_types, " or ", types);
    regions += cat(regions.empty() ? "{\n" : ", {\n", std::exchange(text_, ""),
                   "    stablehlo.return ", names, " : ", types, "\n    }");
  }
  const std::string name = cat("%", next_++);
  text_ = cat(before, "    ", name, ":", first.size(), " = \"stablehlo.case\"(", number.name, ") (",
              regions, ") : (", number.type(), ") -> (", types, ")\n");
  for (std::size_t i = 0; i < first.size(); ++i) first[i].name = cat(name, "#", i);
  return first;
}

std::vector<HloValue> Builder::barrier(std::vector<HloValue> values) {
  const std::string result = cat("%", next_++);
  std::string names, types;
  for (std::size_t i = 0; i < values.size(); ++i) {
    names += cat(i == 0 ? "" : ", ", values[i].name);
    types += cat(i == 0 ? "" : ", ", values[i].type());
    values[i].name = values.size() == 1 ? result : cat(result, "#", i);
  }
  text_ += cat("    ", result, values.size() == 1 ? "" : cat(":", values.size()),
               " = stablehlo.optimization_barrier ", names, " : ", types, "\n");
  return values;
}

HloValue Builder::device_number() {
  return make("ui32", Shape{}, "stablehlo.replica_id : tensor<ui32>");
}

HloValue Builder::all_to_all(const HloValue& rows) {
  const std::int64_t devices = rows.shape[0];
  return make(rows.element, rows.shape,
              cat("\"stablehlo.all_to_all\"(", rows.name,
                  ") {concat_dimension = 0 : i64, replica_groups = ", group_of(devices),
                  ", split_count = ", devices, " : i64, split_dimension = 0 : i64} : (",
                  rows.type(), ") -> ", rows.type()));
}

HloValue Builder::all_gather(const HloValue& vector, std::int64_t devices) {
  const Shape shape{vector.shape[0] * devices};
  return make(vector.element, shape,
              cat("\"stablehlo.all_gather\"(", vector.name,
                  ") {all_gather_dim = 0 : i64, replica_groups = ", group_of(devices), "} : (",
                  vector.type(), ") -> ", type_text(vector.element, shape)));
}

}  // namespace podium::stablehlo
