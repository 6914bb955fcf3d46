// The test device itself: that the host cannot get at its memory, that its queue keeps the order of
// calls, and that each of its faults is one.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/detached/detached_device.h"
#include "backend/operation_case.h"
#include "backend/staging.h"
#include "ops/ops.h"

namespace podium {
namespace {

// sum = a + b, [3].
Graph sum_of_two() {
  Graph graph;
  const TensorType type{DType::kF32, Shape{3}};
  const Value a = graph.input("a", type, InputRole::kParameter),
              b = graph.input("b", type, InputRole::kParameter);
  graph.output("sum", add(graph, a, b, "sum"));
  return graph;
}

// a += b, `times`, with slow tasks and downloads between.
std::vector<float> add_again_and_again(const DetachedOptions& options, int times) {
  const auto device = make_detached_device({}, options);
  const auto a = device->allocate(12), b = device->allocate(12), c = device->allocate(12);
  BoundExecutable program(*device, sum_of_two(), {.donations = {{"sum", "a"}}});
  program.bind_input("a", *a);
  program.bind_input("b", *b);
  std::vector<float> values = {1, 2, 3};
  device->upload(*b, values.data());
  values = {0, 0, 0};  // what was given may be changed at once
  for (int i = 0; i < times; ++i) {
    program.run();
    device->copy(*c, *a);
    device->accumulate(*c, *b, 0);
    device->download(values.data(), *c);
  }
  return values;
}

TEST(DetachedDevice, does_what_it_is_asked_in_order) {
  for (const int microseconds : {0, 300})
    EXPECT_EQ(add_again_and_again({.microseconds = microseconds}, 9),
              (std::vector<float>{10, 20, 30}));
}

TEST(DetachedDevice, with_a_fault_does_something_else) {
  for (const Fault fault :
       {Fault::kUpload, Fault::kDownload, Fault::kSynchronise, Fault::kDonation})
    EXPECT_NE(add_again_and_again({.fault = fault, .period = 1, .microseconds = 300}, 9),
              (std::vector<float>{10, 20, 30}))
        << static_cast<int>(fault);
}

TEST(DetachedDevice, shows_the_host_no_memory) {
  const auto device = make_detached_device({}, {});
  EXPECT_EQ(device->allocate(64)->host(), nullptr);
  float mine = 0;
  EXPECT_EQ(device->adopt(&mine, 4), nullptr);
  const Staging staging(*device, 64);
  staging.host<float>()[3] = 7;
  staging.send();
  staging.host<float>()[3] = 0;
  staging.receive();
  EXPECT_EQ(staging.host<float>()[3], 7);
  EXPECT_EQ(*HostCopy(*device, staging.view()).at<float>(12), 7);
}

}  // namespace
}  // namespace podium
