// The first operation that made a value that is not finite, for the message of a run that diverged.
#include <gtest/gtest.h>

#include <limits>

#include "backend/operation_case.h"
#include "compile/choose.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Four convolutions one after the other, of which the third overflows. What the memory holds from
// before is not what they made.
TEST(FindNonFinite, names_the_first_operation_whatever_lay_in_memory) {
  for (const bool winograd : {false, true}) {
    Graph direct;
    const TensorType images{DType::kF32, Shape{17, 16, 12, 12}};
    const TensorType filters{DType::kF32, Shape{16, 16, 3, 3}};
    const Conv2dAttributes same{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1};
    Value y = direct.input("x", images, InputRole::kBatch);
    for (const char* name : {"c1", "c2", "c3", "c4"})
      y = conv2d(direct, y, direct.input(cat("w ", name), filters, InputRole::kParameter), same,
                 name);
    direct.output("y", y);
    const Graph graph = winograd ? choose_algorithms(direct) : direct;

    std::vector<Tensor> inputs;
    for (const NamedValue& input : graph.inputs()) {
      Tensor& tensor = inputs.emplace_back(graph.type(input.value));
      std::ranges::fill(tensor.f32(), input.name == "w c3" ? 1e38f : 0.5f);
    }
    Tensor nothing(inputs[0].type());
    std::ranges::fill(nothing.f32(), std::numeric_limits<float>::quiet_NaN());
    for (const std::string& name : backend_names()) {
      const auto device = make_device(name);
      LoadedProgram program(*device, graph, inputs);
      program.upload(0, nothing);
      program.run();  // leaves NaN everywhere
      program.upload(0, inputs[0]);
      EXPECT_EQ(program.program().find_non_finite().value_or("nothing"),
                cat(winograd ? "conv2d_winograd" : "conv2d", " c3"))
          << name;
    }
  }
}

}  // namespace
}  // namespace podium
