#include "compile/trim.h"

#include "ops/ops.h"

namespace podium {
namespace {

// Takes from the padding after an axis of `outputs` what windows of `window` leave out, where the
// padding is the cause.
void trim(std::int64_t outputs, std::int64_t window, std::int64_t stride, std::int64_t& pad_after) {
  const std::int64_t unread = outputs % window * stride;
  if (unread <= pad_after) pad_after -= unread;
}

// The pooling that alone reads the value, or null.
const Node* only_pooling(const Graph& graph, const std::map<Value, Readers>& readers, Value value) {
  const auto found = readers.find(value);
  if (found == readers.end() || found->second.count() != 1 || found->second.outputs > 0)
    return nullptr;
  const Node& reader = graph.nodes()[static_cast<std::size_t>(found->second.nodes[0])];
  return reader.op == &max_pool_op || reader.op == &avg_pool_op ? &reader : nullptr;
}

}  // namespace

Graph without_unread_pixels(const Graph& graph) {
  const std::map<Value, Readers> readers = readers_of(graph);
  Graph result;
  std::int32_t index = 0;
  for (const Node& node : graph.nodes()) {
    const Value value{index++, 0};
    if (node.op == nullptr) {
      result.input(node.name, node.outputs[0], node.role);
      continue;
    }
    Attributes attributes = node.attributes;
    const Node* pooling = node.op == &conv2d_op ? only_pooling(graph, readers, value) : nullptr;
    if (pooling != nullptr) {
      auto a = node.attributes.as<Conv2dAttributes>();
      const auto& pool = pooling->attributes.as<PoolAttributes>();
      trim(graph.shape(value)[2], pool.window_h, a.stride_h, a.pad_bottom);
      trim(graph.shape(value)[3], pool.window_w, a.stride_w, a.pad_right);
      attributes = a;
    }
    result.add(*node.op, attributes, node.inputs, node.name);
  }
  for (const NamedValue& output : graph.outputs()) result.output(output.name, output.value);
  return result;
}

}  // namespace podium
