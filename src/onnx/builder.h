// Appends nodes and constants to the graph of an ONNX file. Values go by their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

// Of the file (model.proto).
namespace podium::onnx_file {
class Graph;
}

namespace podium::onnx {

// What ONNX calls the types.
enum class Element : std::int8_t { kFloat = 1, kUint8 = 2, kInt64 = 7 };

// An attribute of a node: its name and value.
struct Named {
  std::string name;
  std::variant<std::int64_t, float, std::vector<std::int64_t>, const onnx_file::Graph*> value;
};

class Builder {
 public:
  // Of names in a graph within another, `prefix` keeps those of the two apart.
  explicit Builder(onnx_file::Graph& graph, std::string prefix = "value/")
      : graph_(graph), prefix_(std::move(prefix)) {}

  // Appends a node and returns the names of its results.
  std::vector<std::string> nodes(std::string_view op, const std::vector<std::string>& inputs,
                                 const std::vector<Named>& attributes, std::size_t results);
  // The same of one result.
  std::string node(std::string_view op, const std::vector<std::string>& inputs,
                   const std::vector<Named>& attributes = {});

  // Constants. A name for a parameter; without one, they get a name.
  std::string floats(const Shape& shape, std::span<const float> values, std::string name = "");
  std::string number(float value) { return floats(Shape{}, {&value, 1}); }
  std::string integers(const Shape& shape, std::span<const std::int64_t> values);
  std::string integers(const std::vector<std::int64_t>& values) {
    return integers(Shape{std::ssize(values)}, values);
  }

  // Extents: -1 for that of the batch, of which there is at most one.
  std::string reshape(const std::string& x, const std::vector<std::int64_t>& extents) {
    return node("Reshape", {x, integers(extents)});
  }
  std::string transpose(const std::string& x, const std::vector<std::int64_t>& axes) {
    return node("Transpose", {x}, {{"perm", axes}});
  }

  // Of the graph itself; -1 is the extent of the batch.
  void input(const std::string& name, Element element, const std::vector<std::int64_t>& extents);
  void output(const std::string& name, Element element, const std::vector<std::int64_t>& extents);

 private:
  std::string next_name() { return prefix_ + std::to_string(count_++); }
  onnx_file::Graph& graph_;
  std::string prefix_;
  std::int64_t count_ = 0;
};

}  // namespace podium::onnx
