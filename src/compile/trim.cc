#include "compile/trim.h"

#include <map>

#include "ops/ops.h"

namespace podium {
namespace {

// Takes from the padding after an axis of `outputs` what windows of `window` leave out, where the
// padding is the cause.
void trim(std::int64_t outputs, std::int64_t window, std::int64_t stride, std::int64_t& pad_after) {
  const std::int64_t unread = outputs % window * stride;
  if (unread <= pad_after) pad_after -= unread;
}

}  // namespace

Graph without_unread_pixels(const Graph& graph) {
  const std::map<Value, Readers> readers = readers_of(graph);
  return with_changed_nodes(graph, [&](std::int32_t index, Node& node) {
    if (node.op != &conv2d_op) return;
    const std::int32_t reader = only_reader(readers, {index, 0});
    if (reader < 0) return;
    const Node& pooling = graph.nodes()[static_cast<std::size_t>(reader)];
    if (pooling.op != &max_pool_op && pooling.op != &avg_pool_op) return;
    const auto& pool = pooling.attributes.as<PoolAttributes>();
    if (!pool.tiles()) return;
    const Shape& made = node.outputs[0].shape;
    auto a = node.attributes.as<Conv2dAttributes>();
    trim(made[2], pool.window_h, a.stride_h, a.pad_bottom);
    trim(made[3], pool.window_w, a.stride_w, a.pad_right);
    node.attributes = a;
  });
}

}  // namespace podium
