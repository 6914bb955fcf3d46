#include "compile/trim.h"

#include <gtest/gtest.h>

#include "ops/ops.h"

namespace podium {
namespace {

struct Case {
  std::int64_t height = 15, width = 15, kernel = 3, stride = 1, window = 2;
  bool read_twice = false;
};

// The convolution's and the pooling's output after the pass.
std::vector<Shape> trimmed(const Case& c) {
  Graph graph;
  const Shape images{4, 5, c.height, c.width};
  const Value x = graph.input("x", {DType::kF32, images}, InputRole::kBatch);
  const Value w =
      graph.input("w", {DType::kF32, {6, 5, c.kernel, c.kernel}}, InputRole::kParameter);
  const Value y = conv2d(graph, x, w, same_padding(images, c.kernel, c.kernel, c.stride), "conv");
  graph.output("pooled", max_pool(graph, y, c.window, c.window, "pool"));
  if (c.read_twice) graph.output("y", y);
  const Graph result = without_unread_pixels(graph);
  result.verify();
  EXPECT_EQ(result.nodes().size(), graph.nodes().size());
  return {result.shape(y), result.shape(result.output("pooled"))};
}

TEST(Trim, a_convolution_makes_only_what_whole_windows_read) {
  EXPECT_EQ(trimmed({}), (std::vector<Shape>{{4, 6, 14, 14}, {4, 6, 7, 7}}));
  EXPECT_EQ(trimmed({.height = 16}), (std::vector<Shape>{{4, 6, 16, 14}, {4, 6, 8, 7}}));
  EXPECT_EQ(trimmed({.width = 8}), (std::vector<Shape>{{4, 6, 14, 8}, {4, 6, 7, 4}}));
}

TEST(Trim, other_readers_and_pixels_of_the_image_itself_keep_everything) {
  EXPECT_EQ(trimmed({.read_twice = true})[0], (Shape{4, 6, 15, 15}));
  EXPECT_EQ(trimmed({.height = 16, .width = 16})[0], (Shape{4, 6, 16, 16}));
  // Two rows are left out, but only one is there for the padding.
  EXPECT_EQ(trimmed({.height = 17, .width = 17, .window = 3})[0], (Shape{4, 6, 17, 17}));
  // A row of a strided convolution takes as many rows of the padding.
  EXPECT_EQ(trimmed({.height = 30, .width = 30, .kernel = 3, .stride = 2})[0],
            (Shape{4, 6, 15, 15}));
  EXPECT_EQ(trimmed({.height = 30, .width = 30, .kernel = 6, .stride = 2})[0],
            (Shape{4, 6, 14, 14}));
}

TEST(Trim, what_is_left_has_the_same_values) {
  Graph graph;
  const Shape images{3, 4, 7, 7};
  const Value x = graph.input("x", {DType::kF32, images}, InputRole::kBatch);
  const Value w = graph.input("w", {DType::kF32, {2, 4, 3, 3}}, InputRole::kParameter);
  const Value y = conv2d(graph, x, w, same_padding(images, 3, 3, 1), "conv");
  graph.output("pooled", max_pool(graph, y, 2, 2, "pool"));
  Tensor image(DType::kF32, images), weight(DType::kF32, {2, 4, 3, 3});
  for (std::size_t i = 0; i < image.f32().size(); ++i)
    image.f32()[i] = static_cast<float>(i * 37 % 101) - 50;
  for (std::size_t i = 0; i < weight.f32().size(); ++i)
    weight.f32()[i] = static_cast<float>(i * 53 % 89) - 44;
  const auto run = [&](const Graph& g) {
    const Node& conv = g.node(y);
    Tensor made(DType::kF32, g.shape(y)), pooled(DType::kF32, {3, 2, 3, 3});
    conv.op->reference(conv.attributes, std::vector<const Tensor*>{&image, &weight},
                       std::vector<Tensor*>{&made});
    const Node& pool = g.node(g.output("pooled"));
    pool.op->reference(pool.attributes, std::vector<const Tensor*>{&made},
                       std::vector<Tensor*>{&pooled});
    return std::vector<float>(pooled.f32().begin(), pooled.f32().end());
  };
  EXPECT_EQ(run(graph), run(without_unread_pixels(graph)));
}

}  // namespace
}  // namespace podium
