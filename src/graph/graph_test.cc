#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/op_def.h"

namespace podium {
namespace {

// Operations of the test's own: the graph knows none of ops/.
struct JoinAttributes {
  std::int64_t axis = 0;
  float weight = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("axis", axis), v("weight", weight);
  }
};

bool rule_changed = false;  // lets a test change a shape rule under a finished graph

std::vector<TensorType> infer_join(const InferContext& context) {
  const Shape &a = context.inputs[0].shape, &b = context.inputs[1].shape;
  const std::int64_t axis = context.as<JoinAttributes>().axis;
  context.require(axis >= 0 && axis < a.rank(), "axis ", axis, " of ", to_string(a));
  context.require(a.rank() == b.rank(), "ranks differ: ", to_string(a), " and ", to_string(b));
  Shape joined = a;
  joined[axis] += b[axis];
  if (rule_changed) joined[axis] += 1;
  return {{context.inputs[0].dtype, joined}};
}
std::vector<TensorType> infer_split(const InferContext& context) {
  return {context.inputs[0], {DType::kI32, Shape{}}};
}

const OpDef join_op = {.kind = OpKind{}, .name = "join", .infer = infer_join};
const OpDef split_op = {.kind = OpKind{}, .name = "split", .infer = infer_split};

template <typename Error, typename F>
std::string text_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Small {
  Graph graph;
  Value x = graph.input("x", {DType::kF32, {2, 3}}, InputRole::kBatch);
  Value w = graph.input("w", {DType::kF32, {4, 3}}, InputRole::kParameter);
};

TEST(Graph, a_node_has_the_types_that_its_shape_rule_gives) {
  Small s;
  const Value joined = s.graph.add1(join_op, JoinAttributes{.axis = 0}, {s.x, s.w}, "both");
  EXPECT_EQ(s.graph.shape(joined), (Shape{6, 3}));
  EXPECT_EQ(s.graph.node(joined).name, "both");
  EXPECT_EQ(s.graph.node(joined).inputs, (std::vector<Value>{s.x, s.w}));
  const std::vector<Value> split = s.graph.add(split_op, {}, {joined});
  ASSERT_EQ(split.size(), 2U);
  EXPECT_EQ(split[0].node, split[1].node);
  EXPECT_EQ(s.graph.shape(split[0]), (Shape{6, 3}));
  EXPECT_EQ(s.graph.type(split[1]), (TensorType{DType::kI32, {}}));
  EXPECT_NO_THROW(s.graph.verify());
}

TEST(Graph, a_broken_shape_rule_names_operation_node_and_rule) {
  Small s;
  EXPECT_EQ(text_of<UserError>([&] {
              s.graph.add(join_op, JoinAttributes{.axis = 5}, {s.x, s.w}, "stem");
            }),
            "[join \"stem\"] axis 5 of [2, 3]");
}

TEST(Graph, a_node_without_a_name_is_called_by_its_operation) {
  Small s;
  const Value flat = s.graph.input("flat", {DType::kF32, {3}}, InputRole::kBatch);
  EXPECT_EQ(text_of<UserError>([&] {
              s.graph.add(join_op, JoinAttributes{}, {s.x, flat});
            }),
            "[join] ranks differ: [2, 3] and [3]");
}

TEST(Graph, a_node_with_too_few_inputs_is_refused) {
  Small s;
  EXPECT_EQ(text_of<UserError>([&] { s.graph.add(join_op, JoinAttributes{}, {s.x}, "stem"); }),
            "[join \"stem\"] has 1 inputs, and needs more");
}

TEST(Graph, a_refused_node_leaves_the_graph_as_it_was) {
  Small s;
  const std::string before = to_string(s.graph);
  EXPECT_THROW(s.graph.add(join_op, JoinAttributes{.axis = 5}, {s.x, s.w}), UserError);
  EXPECT_EQ(to_string(s.graph), before);
}

TEST(Graph, a_value_that_is_not_there_can_neither_be_read_nor_put_out) {
  Small s;
  const Value none, ahead{7, 0}, no_such_output{s.x.node, 1}, negative{s.x.node, -1};
  for (const Value bad : {none, ahead, no_such_output, negative}) {
    EXPECT_THROW(s.graph.add(join_op, JoinAttributes{}, {s.x, bad}), InternalError);
    EXPECT_THROW(s.graph.output("y", bad), InternalError);
  }
  EXPECT_TRUE(s.graph.outputs().empty());
}

TEST(Graph, inputs_and_outputs_are_found_by_name) {
  Small s;
  s.graph.output("y", s.w);
  const Graph& graph = s.graph;
  EXPECT_EQ(graph.input("w"), s.w);
  EXPECT_EQ(graph.output("y"), s.w);
  EXPECT_EQ(graph.node(graph.input("w")).role, InputRole::kParameter);
  EXPECT_TRUE(contains(text_of<InternalError>([&] { graph.input("v"); }), "\"v\""));
  EXPECT_TRUE(contains(text_of<InternalError>([&] { graph.output("x"); }), "\"x\""));
}

TEST(Graph, inputs_keep_the_order_in_which_they_were_added) {
  Small s;
  s.graph.add(split_op, {}, {s.x});
  s.graph.input("late", {DType::kU32, {}}, InputRole::kScalar);
  ASSERT_EQ(s.graph.inputs().size(), 3U);
  EXPECT_EQ(s.graph.inputs()[0].name, "x");
  EXPECT_EQ(s.graph.inputs()[1].name, "w");
  EXPECT_EQ(s.graph.inputs()[2].name, "late");
}

TEST(Verify, catches_two_inputs_of_one_name) {
  Small s;
  s.graph.input("x", {DType::kF32, {1}}, InputRole::kState);
  EXPECT_TRUE(contains(text_of<InternalError>([&] { s.graph.verify(); }), "called x"));
}

TEST(Verify, catches_two_outputs_of_one_name) {
  Small s;
  s.graph.output("y", s.x);
  EXPECT_NO_THROW(s.graph.verify());
  s.graph.output("y", s.w);
  EXPECT_TRUE(contains(text_of<InternalError>([&] { s.graph.verify(); }), "called y"));
}

TEST(Verify, catches_types_that_the_shape_rule_does_not_give) {
  Small s;
  s.graph.add(join_op, JoinAttributes{}, {s.x, s.w});
  EXPECT_NO_THROW(s.graph.verify());
  rule_changed = true;
  const std::string text = text_of<InternalError>([&] { s.graph.verify(); });
  rule_changed = false;
  EXPECT_TRUE(contains(text, "join has other types than its shape rule gives")) << text;
}

TEST(Verify, allows_an_input_and_an_output_of_one_name) {
  Small s;
  s.graph.output("x", s.w);
  EXPECT_NO_THROW(s.graph.verify());
}

TEST(Print, a_graph_reads_as_one_line_a_node) {
  Small s;
  const Value joined =
      s.graph.add1(join_op, JoinAttributes{.axis = 1, .weight = 0.5f}, {s.x, s.x}, "both");
  const std::vector<Value> split = s.graph.add(split_op, {}, {joined});
  const Value last = s.graph.add1(join_op, JoinAttributes{}, {split[0], s.w});
  s.graph.output("y", last);
  s.graph.output("count", split[1]);
  EXPECT_EQ(to_string(s.graph),
            "%0 = input() : f32[2, 3]  # x\n"
            "%1 = input() : f32[4, 3]  # w\n"
            "%2 = join(%0, %0) {axis=1, weight=0x1p-1} : f32[2, 6]  # both\n"
            "%3 = split(%2) : f32[2, 6], i32[]\n"
            "%4 = join(%3.0, %1) {axis=0, weight=0x1p+0} : f32[6, 6]\n"
            "output y = %4.0\n"
            "output count = %3.1\n");
}

TEST(WithoutDeadNodes, drops_what_no_output_needs_and_keeps_all_inputs) {
  Small s;
  const Value kept = s.graph.add1(join_op, JoinAttributes{}, {s.x, s.x}, "kept");
  s.graph.add1(join_op, JoinAttributes{}, {kept, s.w}, "dead");
  const Value top = s.graph.add1(split_op, {}, {kept}, "top");
  s.graph.output("count", {top.node, 1});
  const Graph graph = without_dead_nodes(s.graph);
  EXPECT_EQ(to_string(graph),
            "%0 = input() : f32[2, 3]  # x\n"
            "%1 = input() : f32[4, 3]  # w\n"
            "%2 = join(%0, %0) {axis=0, weight=0x1p+0} : f32[4, 3]  # kept\n"
            "%3 = split(%2) : f32[4, 3], i32[]  # top\n"
            "output count = %3.1\n");
  EXPECT_EQ(graph.node(graph.input("w")).role, InputRole::kParameter);
  EXPECT_NO_THROW(graph.verify());
}

TEST(WithoutDeadNodes, changes_nothing_where_all_is_needed) {
  Small s;
  s.graph.output("y", s.graph.add1(join_op, JoinAttributes{}, {s.x, s.w}));
  EXPECT_EQ(to_string(without_dead_nodes(s.graph)), to_string(s.graph));
}

TEST(ReadersOf, lists_each_reading_and_each_program_output) {
  Small s;
  const Value twice = s.graph.add1(join_op, JoinAttributes{}, {s.x, s.x});
  const std::vector<Value> split = s.graph.add(split_op, {}, {twice});
  s.graph.output("a", twice);
  s.graph.output("b", split[1]);
  const std::map<Value, Readers> uses = readers_of(s.graph);
  EXPECT_EQ(uses.at(s.x).count(), 2U);
  EXPECT_EQ(uses.at(twice).count(), 2U);
  EXPECT_EQ(uses.at(split[1]).count(), 1U);
  EXPECT_EQ(uses.at(s.x).nodes, (std::vector<std::int32_t>{twice.node, twice.node}));
  EXPECT_EQ(uses.at(split[1]).outputs, 1);
  EXPECT_FALSE(uses.contains(split[0]));
  EXPECT_FALSE(uses.contains(s.w));
}

}  // namespace
}  // namespace podium
