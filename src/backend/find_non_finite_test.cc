// The first operation that made a value that is not finite, for the message of a run that diverged.
#include <gtest/gtest.h>

#include <limits>

#include "backend/backend.h"
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
    Tensor result(graph.type(graph.outputs()[0].value));
    const std::vector<const void*> in = {inputs[0].data(), inputs[1].data(), inputs[2].data(),
                                         inputs[3].data(), inputs[4].data()};
    const std::vector<void*> out = {result.data()};
    for (const std::string& name : backend_names()) {
      const auto executable = make_backend(name)->compile(graph, {});
      const float x = inputs[0].f32()[0];
      std::ranges::fill(inputs[0].f32(), std::numeric_limits<float>::quiet_NaN());
      executable->run(in, out);  // leaves NaN everywhere
      std::ranges::fill(inputs[0].f32(), x);
      EXPECT_EQ(executable->find_non_finite(in, out).value_or("nothing"),
                cat(winograd ? "conv2d_winograd" : "conv2d", " c3"))
          << name;
    }
  }
}

}  // namespace
}  // namespace podium
