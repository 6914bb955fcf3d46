#include "onnx/builder.h"

#include "onnx/model.pb.h"

namespace podium::onnx {
namespace {

using onnx_file::Attribute, onnx_file::Dimension;

onnx_file::Tensor& add_constant(onnx_file::Graph& graph, const Shape& shape,
                                const std::string& name) {
  onnx_file::Tensor& tensor = *graph.add_initializer();
  tensor.set_name(name);
  for (const std::int64_t extent : shape.extents()) tensor.add_dims(extent);
  return tensor;
}

void describe(onnx_file::Value& value, const std::string& name, Element element,
              const std::vector<std::int64_t>& extents) {
  value.set_name(name);
  onnx_file::TensorType& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<onnx_file::Tensor::Type>(element));
  onnx_file::TensorShape& shape = *type.mutable_shape();
  for (const std::int64_t extent : extents) {
    Dimension& dimension = *shape.add_dim();
    if (extent < 0)
      dimension.set_dim_param("batch");
    else
      dimension.set_dim_value(extent);
  }
}

// Gives an attribute its value.
struct SetValue {
  Attribute& attribute;
  void operator()(std::int64_t value) const {
    attribute.set_type(Attribute::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(Attribute::FLOAT);
    attribute.set_f(value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    attribute.set_type(Attribute::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }
  void operator()(const onnx_file::Graph* value) const {
    attribute.set_type(Attribute::GRAPH);
    *attribute.mutable_g() = *value;
  }
};

}  // namespace

std::vector<std::string> Builder::nodes(std::string_view op, const std::vector<std::string>& inputs,
                                        const std::vector<Named>& attributes, std::size_t results) {
  onnx_file::Node& node = *graph_.add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  for (const Named& own : attributes) {
    Attribute& attribute = *node.add_attribute();
    attribute.set_name(own.name);
    std::visit(SetValue{attribute}, own.value);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < results; ++i) {
    names.push_back(next_name());
    node.add_output(names.back());
  }
  node.set_name(names.front());
  return names;
}

std::string Builder::node(std::string_view op, const std::vector<std::string>& inputs,
                          const std::vector<Named>& attributes) {
  return nodes(op, inputs, attributes, 1).front();
}

std::string Builder::floats(const Shape& shape, std::span<const float> values, std::string name) {
  if (name.empty()) name = next_name();
  onnx_file::Tensor& tensor = add_constant(graph_, shape, name);
  tensor.set_data_type(onnx_file::Tensor::FLOAT);
  tensor.set_raw_data(values.data(), values.size_bytes());
  return name;
}

std::string Builder::integers(const Shape& shape, std::span<const std::int64_t> values) {
  const std::string name = next_name();
  onnx_file::Tensor& tensor = add_constant(graph_, shape, name);
  tensor.set_data_type(onnx_file::Tensor::INT64);
  tensor.set_raw_data(values.data(), values.size_bytes());
  return name;
}

void Builder::input(const std::string& name, Element element,
                    const std::vector<std::int64_t>& extents) {
  describe(*graph_.add_input(), name, element, extents);
}
void Builder::output(const std::string& name, Element element,
                     const std::vector<std::int64_t>& extents) {
  describe(*graph_.add_output(), name, element, extents);
}

}  // namespace podium::onnx
