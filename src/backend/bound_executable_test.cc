#include "backend/bound_executable.h"

#include <gtest/gtest.h>

#include "ops/ops.h"

namespace podium {
namespace {

// difference = a - b, as combine(1, a, -1, b); and the same with its inputs in the other order.
Graph difference(bool b_first) {
  Graph graph;
  const TensorType type{DType::kF32, Shape{3}};
  const char* const names[] = {"a", "b"};
  const Value first = graph.input(names[b_first ? 1 : 0], type, InputRole::kParameter);
  const Value second = graph.input(names[b_first ? 0 : 1], type, InputRole::kParameter);
  const Value a = b_first ? second : first, b = b_first ? first : second;
  graph.output("twice", combine(graph, 1, a, 1, a, "twice"));
  graph.output("difference", combine(graph, 1, a, -1, b, "difference"));
  return graph;
}

TEST(BoundExecutable, finds_memory_by_name_whatever_the_order_of_the_graph) {
  const std::vector<float> a = {5, 7, 9}, b = {1, 2, 3};
  for (const std::string& name : backend_names()) {
    for (const bool b_first : {false, true}) {
      const auto backend = make_backend(name);
      BoundExecutable program(*backend, difference(b_first), {});
      std::vector<float> result(3), twice(3);
      program.bind_output("difference", result.data());
      program.bind_input("b", b.data());
      program.bind_output("twice", twice.data());
      program.bind_input("a", a.data());
      program.run();
      EXPECT_EQ(result, (std::vector<float>{4, 5, 6})) << name;
      EXPECT_EQ(twice, (std::vector<float>{10, 14, 18})) << name;
      program.set_input(program.input_slot("a"), b.data());
      program.run();
      EXPECT_EQ(result, (std::vector<float>{0, 0, 0})) << name;
    }
  }
}

TEST(BoundExecutable, refuses_an_unknown_name_and_names_what_has_no_memory) {
  const auto backend = make_backend("reference");
  BoundExecutable program(*backend, difference(false), {});
  std::vector<float> values(3), twice(3);
  try {
    program.bind_input("c", values.data());
    FAIL() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("no input \"c\"; it has a, b"), std::string::npos)
        << error.what();
  }
  program.bind_input("a", values.data());
  program.bind_output("difference", values.data());
  program.bind_output("twice", twice.data());
  try {
    program.run();
    FAIL() << "it ran";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("input \"b\" is not bound"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace podium
