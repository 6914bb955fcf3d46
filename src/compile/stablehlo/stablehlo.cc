#include "compile/stablehlo/stablehlo.h"

#include <algorithm>
#include <array>

#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {

Emitter emitter_of(const OpDef& op) {
  static constexpr Emitter kEmitters[] = {
#define PODIUM_EMITTER_ENTRY(Kind, name) emit_##name,
      PODIUM_OP_LIST(PODIUM_EMITTER_ENTRY)
#undef PODIUM_EMITTER_ENTRY
  };
  return op.kind == kOwnOperation ? nullptr : kEmitters[static_cast<std::size_t>(op.kind)];
}

std::vector<HloValue> emit(
    Builder& builder, const Graph& graph, std::span<const HloValue> inputs,
    const std::function<void(const Node&, std::span<const HloValue>)>& made) {
  PODIUM_CHECK(inputs.size() == graph.inputs().size());
  std::vector<std::vector<HloValue>> values(graph.nodes().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[static_cast<std::size_t>(graph.inputs()[i].value.node)] = {inputs[i]};
  const auto at = [&](Value value) -> const HloValue& {
    return values[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == nullptr) continue;
    const Emitter emitter = emitter_of(*node.op);
    PODIUM_REQUIRE(emitter != nullptr, ExitCode::kUsage, "[", node.op->name, " \"", node.name,
                   "\"] has no form in StableHLO, because it is an operation of the program's own; "
                   "train this model with --backend cpu");
    std::vector<HloValue> operands;
    for (const Value value : node.inputs) operands.push_back(at(value));
    values[i] = emitter({builder, node, operands});
    PODIUM_CHECK(values[i].size() == node.outputs.size(), node.op->name);
    for (std::size_t o = 0; o < values[i].size(); ++o)
      PODIUM_CHECK(values[i][o].type() ==
                       type_text(element_of(node.outputs[o].dtype), node.outputs[o].shape),
                   node.op->name, " ", node.name, " output ", o, ": ", values[i][o].type());
    if (made) made(node, values[i]);
  }
  std::vector<HloValue> results;
  for (const NamedValue& output : graph.outputs()) results.push_back(at(output.value));
  return results;
}

std::string identifier(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_word) c = '_';
  }
  return text.empty() || (text[0] >= '0' && text[0] <= '9') ? "_" + text : text;
}

std::string module_around(const std::string& name, std::span<const std::string> arguments,
                          const Builder& body, std::span<const HloValue> results) {
  std::string signature, names, types;
  for (const std::string& argument : arguments)
    signature += (signature.empty() ? "" : ", ") + argument;
  for (const HloValue& result : results) {
    names += (names.empty() ? "" : ", ") + result.name;
    types += (types.empty() ? "" : ", ") + result.type();
  }
  return cat("module @", identifier(name), " {\n  func.func public @main(", signature, ") -> (",
             types, ") {\n", body.text(), "    return ", names, names.empty() ? "" : " : ", types,
             "\n  }\n}\n");
}

std::string module_text(const Graph& graph, const std::string& name) {
  Builder builder("HIGHEST");
  std::vector<HloValue> inputs;
  std::vector<std::string> arguments;
  for (const NamedValue& input : graph.inputs()) {
    inputs.push_back(builder.argument(inputs.size(), graph.type(input.value)));
    arguments.push_back(
        cat(inputs.back().name, ": ", inputs.back().type(), " loc(\"", input.name, "\")"));
  }
  const std::vector<HloValue> results = emit(builder, graph, inputs);
  return module_around(name, arguments, builder, results);
}

}  // namespace podium::stablehlo
