#include "onnx/onnx_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/version.h"
#include "base/words.h"
#include "data/pictures/image_source.h"
#include "graph/op_def.h"
#include "onnx/builder.h"
#include "onnx/emit.h"
#include "onnx/model.pb.h"
#include "train/program/program.h"

namespace podium {
namespace {

using onnx::Builder, onnx::Element;

constexpr std::int64_t kIrVersion = 8, kOperators = 17;
constexpr std::int64_t kRows = 2;

class OnnxNetwork {
 public:
  OnnxNetwork(const Recipe& recipe, const Model& model, const std::vector<Field>& fields,
              const Checkpoint& checkpoint)
      : recipe_(recipe),
        fields_(fields),
        checkpoint_(checkpoint),
        graph_(program_of(model, kRows)),
        other_(program_of(model, kRows + 1)),
        b_(*file_.mutable_graph()) {}

  std::string text() {
    file_.mutable_graph()->set_name(recipe_.model);
    // The fields in the order of the data, then what is not of them.
    for (const Field& field : fields_)
      for (const NamedValue& input : graph_.inputs()) {
        if (input.name != field.name) continue;
        add_input(input);
        if (examples_.empty()) examples_ = names_.at(input.value);
      }
    for (const NamedValue& input : graph_.inputs())
      if (find_field(fields_, input.name) == nullptr) add_input(input);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) add_node(static_cast<std::int32_t>(i));
    for (const NamedValue& output : graph_.outputs()) add_output(output);
    file_.set_ir_version(kIrVersion);
    file_.set_producer_name("podium");
    file_.set_producer_version(kVersion);
    file_.add_opset_import()->set_version(kOperators);
    add_property("recipe", recipe_.name);
    add_property("step", cat(checkpoint_.step));
    if (const Field* const target = target_of(fields_);
        target != nullptr && target->shape.rank() == 0 && target->below > 0) {
      std::vector<std::string> labels;
      for (std::int64_t i = 0; i < target->below; ++i) labels.push_back(word_of(*target, i));
      add_property("labels", json_text(nlohmann::json(labels)));
    }
    constexpr std::size_t kMost = std::size_t{1} << 31;
    PODIUM_REQUIRE(file_.ByteSizeLong() < kMost, ExitCode::kUsage,
                   "this network is larger than 2 GiB, which an ONNX file cannot hold; write it "
                   "with --safetensors");
    return file_.SerializeAsString();
  }

 private:
  // Compared with another number of examples, a program shows which extents depend on it.
  Graph program_of(const Model& model, std::int64_t rows) const {
    BatchInputs inputs = batch_inputs(recipe_, fields_, rows);
    inputs.precision = {};
    return build_evaluation_program(model, inputs);
  }

  std::vector<std::int64_t> extents_of(Value value) const {
    const Shape &one = graph_.shape(value), &other = other_.shape(value);
    std::vector<std::int64_t> extents;
    for (std::int64_t axis = 0; axis < one.rank(); ++axis)
      extents.push_back(one[axis] == other[axis] ? one[axis] : -1);
    return extents;
  }

  void add_property(const std::string& key, const std::string& value) {
    onnx_file::Property& property = *file_.add_metadata_props();
    property.set_key(key);
    property.set_value(value);
  }

  // A parameter or a running statistic is a constant, a field is an input.
  void add_input(const NamedValue& input) {
    std::string& name = names_[input.value];
    name = input.name;
    const Tensor* const tensor =
        input.name.starts_with(kCarriedPrefix) ? nullptr : checkpoint_.find(input.name);
    if (tensor != nullptr) {
      b_.floats(tensor->shape(), tensor->f32(), name);
      return;
    }
    const Field* const field = find_field(fields_, input.name);
    const std::vector<std::int64_t> extents = extents_of(input.value);
    if (graph_.type(input.value).dtype == DType::kI32) {
      b_.input(name, Element::kInt64, extents);
    } else if (field != nullptr && field->name == kImagesField) {
      b_.input(name, Element::kUint8, extents);
      name = normalised_images(name, field->shape);
    } else {
      b_.input(name, Element::kFloat, extents);
      if (field != nullptr) name = normalised(name, *field);
    }
  }

  std::string constants(const Shape& shape, const std::vector<double>& values) {
    const std::vector<float> floats(values.begin(), values.end());
    return b_.floats(shape, floats);
  }

  // As data/pictures/prepare/normalise.h does.
  std::string normalised_images(std::string x, const Shape& shape) {
    constexpr std::int64_t kFloat = 1;
    x = b_.node("Cast", {x}, {{"to", kFloat}});
    x = b_.node("Div", {x, b_.number(255)});
    const NormaliseOptions& options = recipe_.normalise;
    if (options.name == "per-channel") {
      const Shape channels{shape[0], 1, 1};
      x = b_.node("Sub", {x, constants(channels, options.mean)});
      return b_.node("Div", {x, constants(channels, options.deviation)});
    }
    if (options.name != "per-image") return x;
    const auto mean = [&](const std::string& of) {
      return b_.node("ReduceMean", {of}, {{"axes", std::vector<std::int64_t>{1, 2, 3}}});
    };
    x = b_.node("Sub", {x, mean(x)});
    const std::string deviation = b_.node("Sqrt", {mean(b_.node("Mul", {x, x}))});
    const float least = 1 / std::sqrt(static_cast<float>(shape.elements()));
    return b_.node("Div", {x, b_.node("Max", {deviation, b_.number(least)})});
  }

  std::string normalised(const std::string& x, const Field& field) {
    if (field.mean.empty()) return x;
    const Shape shape{std::ssize(field.mean)};
    return b_.node("Div", {b_.node("Sub", {x, constants(shape, field.mean)}),
                           constants(shape, field.deviation)});
  }

  void add_node(std::int32_t number) {
    const Node& node = graph_.nodes()[static_cast<std::size_t>(number)];
    if (node.op == nullptr) return;
    onnx::Emission e{.b = b_,
                     .node = node,
                     .in = {},
                     .types = {},
                     .extents = extents_of(Value{number, 0}),
                     .rows = kRows,
                     .examples = examples_};
    for (const Value input : node.inputs) {
      e.in.push_back(names_.at(input));
      e.types.push_back(&graph_.type(input));
    }
    const onnx::Results results = onnx::emit(e);
    PODIUM_REQUIRE(!results.empty(), ExitCode::kUsage, "model ", recipe_.model, ": its operation ",
                   node.op->name, " has no counterpart in an ONNX file; write the network with ",
                   "--safetensors");
    for (std::size_t i = 0; i < results.size(); ++i)
      names_[Value{number, static_cast<std::int32_t>(i)}] = results[i];
  }

  // Under the name that the network gives it; a predicted number in the unit of the data.
  void add_output(const NamedValue& output) {
    std::string from = names_.at(output.value);
    const Field* const target = target_of(fields_);
    const bool is_number = output.name == "prediction" && target != nullptr &&
                           target->dtype == DType::kF32 && target->deviation.size() == 1;
    if (is_number) {
      from = b_.node("Mul", {from, constants(Shape{}, target->deviation)});
      from = b_.node("Add", {from, constants(Shape{}, target->mean)});
    }
    onnx_file::Node& node = *file_.mutable_graph()->add_node();
    node.set_op_type("Identity");
    node.add_input(from);
    node.add_output(output.name);
    b_.output(output.name, Element::kFloat, extents_of(output.value));
  }

  const Recipe& recipe_;
  const std::vector<Field>& fields_;
  const Checkpoint& checkpoint_;
  const Graph graph_, other_;
  onnx_file::Model file_;
  Builder b_;
  std::map<Value, std::string> names_;
  std::string examples_;  // the first of the fields
};

}  // namespace

std::string onnx_file_of(const Recipe& recipe, const Model& model, const std::vector<Field>& fields,
                         const Checkpoint& checkpoint) {
  return OnnxNetwork(recipe, model, fields, checkpoint).text();
}

}  // namespace podium
