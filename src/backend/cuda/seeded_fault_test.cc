// Every fault of seeded_fault.h is found: by the bits of operations in some order of the threads,
// by the bits of a step of several replicas, by the emulation, or by a sanitizer. Without a fault,
// nothing is.
#include "backend/cuda/seeded_fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/cuda/emulated/emulated.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/tensor_cores.h"
#include "backend/operation_case.h"
#include "backend/reference/reference_device.h"
#include "base/error.h"
#include "base/numerics/tree.h"
#include "base/sanitizers.h"
#include "ops/ops.h"

namespace podium::cuda_emulated {
namespace {

// --- what the tests do with every operation

enum class Values : std::uint8_t {
  kPlain,
  kTiny,  // products vanish, and leave a sign
};

OperationCase case_of(const OpDef& op, const OpSample& sample, Values values) {
  OperationCase c;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    operands.push_back(c.graph.input(cat("input", i), type, InputRole::kBatch));
    // A norm's operands are sums of squares.
    c.inputs.push_back(random_operand(type, static_cast<std::uint32_t>(i), classes_of(sample),
                                      op.kind == OpKind::kGlobalNorm));
    if (values == Values::kPlain || type.dtype != DType::kF32) continue;
    const auto x = c.inputs.back().f32();
    for (std::size_t k = 0; k < x.size(); ++k) x[k] *= k % 3 == 0 ? 1e-23f : -2e-22f;
  }
  const std::vector<Value> outputs = c.graph.add(op, sample.attributes, operands, "sample");
  for (std::size_t i = 0; i < outputs.size(); ++i) c.graph.output(cat("output", i), outputs[i]);
  c.graph.verify();
  return c;
}

// The first difference from the reference in some order of the threads; empty: none.
std::string difference(Device& device, const OpDef& op, const OpSample& sample, Values values) {
  const OperationCase c = case_of(op, sample, values);
  const std::vector<Tensor> expected = interpret(c.graph, c.inputs);
  for (const char* const order : {"forward", "reverse", "shuffled"}) {
    set_cuda_thread_order(order);
    const std::vector<Tensor> actual = run_case(device, c, {});
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const std::string found = first_difference(actual[i], expected[i]);
      if (!found.empty()) return cat(op.name, " {", sample.attributes.text(), "} ", order, found);
    }
  }
  return "";
}

// --- a step of five replicas: logits = x w, loss, gradient, tree, w - the mean gradient

constexpr std::int64_t kImages = 4, kFeatures = 6, kClasses = 3, kReplicas = 5;
constexpr std::int64_t kWeights = kFeatures * kClasses, kWord = 4;

TensorType f32(const Shape& shape) { return {DType::kF32, shape}; }

Graph replica_graph() {
  Graph graph;
  const Value x = graph.input("x", f32({kImages, kFeatures}), InputRole::kBatch),
              labels = graph.input("labels", {DType::kI32, Shape{kImages}}, InputRole::kBatch),
              w = graph.input("w", f32({kFeatures, kClasses}), InputRole::kParameter);
  const Value z = matmul(graph, x, w, {}, "logits");
  const Value each = softmax_cross_entropy(graph, z, labels, 0.1f, "losses");
  const Value share = fill(graph, {kImages}, 1.0f / kImages);
  const Value dz = graph.add1(softmax_cross_entropy_grad_op, SoftmaxCrossEntropyAttributes{0.1f},
                              {z, labels, share}, "dz");
  graph.output("dw", matmul(graph, x, dz, {.transpose_a = true}, "dw"));
  graph.output("loss", batch_mean(graph, each));
  return graph;
}
// How a step is bound.
enum class Step : std::uint8_t {
  kPlain,
  // Replicas follow one another, in the memory of one. The update needs more than that, and less
  // than all replicas' together.
  kUpdateNeedsMore,
  // The norm of the sum is limited, to one that it exceeds.
  kLimitedNorm,
};

constexpr float kLimit = 0.01f;
constexpr std::int64_t kWide = 40;

// The sum as one vector of `squares`, and it times the factor.
Graph square_graph() {
  Graph graph;
  const Value sum = graph.input("sum", f32({kWeights}), InputRole::kParameter);
  graph.output("squares", square_sums(graph, sum));
  return graph;
}
Graph norm_graph() {
  Graph graph;
  const Value squares = graph.input("squares", f32({1}), InputRole::kParameter);
  const Value norm = global_norm(graph, squares, {0, 1});
  graph.output("norm", norm);
  graph.output("factor", clip_factor(graph, norm, kLimit));
  return graph;
}
Graph scale_graph() {
  Graph graph;
  const Value sum = graph.input("sum", f32({kWeights}), InputRole::kParameter),
              factor = graph.input("factor", f32({}), InputRole::kScalar);
  graph.output("scaled", multiply_by(graph, sum, factor));
  return graph;
}

Graph update_graph(Step kind = Step::kPlain) {
  Graph graph;
  const Value w = graph.input("w", f32({kFeatures, kClasses}), InputRole::kParameter);
  Value sum = graph.input("sum", f32({kFeatures, kClasses}), InputRole::kParameter);
  if (kind == Step::kUpdateNeedsMore) {
    const Value wide = matmul(graph, sum, fill(graph, {kClasses, kWide}, 0.5f), {}, "wide");
    sum = matmul(graph, wide, fill(graph, {kWide, kClasses}, 1.0f / kWide), {}, "narrow");
  }
  graph.output("new_w", sub(graph, w, sum));
  return graph;
}

// The inputs of a replica in a step. The first value of replica 1 is multiplied by `factor`.
std::vector<Tensor> batch_of(std::int64_t step, std::int64_t replica, float factor) {
  const auto stream = static_cast<std::uint32_t>(100 + 10 * step + replica);
  std::vector<Tensor> batch;
  batch.push_back(random_operand(f32({kImages, kFeatures}), stream, kClasses));
  batch.push_back(random_operand({DType::kI32, Shape{kImages}}, stream, kClasses));
  if (replica == 1) batch[0].f32()[0] *= factor;
  return batch;
}
// A loss that is not finite, and finite ones with a norm that is not.
constexpr float kNanLoss = std::numeric_limits<float>::quiet_NaN(), kInfiniteNorm = 1e30f;
Tensor first_weights() { return random_operand(f32({kFeatures, kClasses}), 9, kClasses); }

// What a step makes of the weights, by the reference.
Tensor expected_after(const Tensor& w, std::int64_t step, Step kind) {
  const Graph graph = replica_graph();
  std::vector<Tensor> gradients;
  for (std::int64_t r = 0; r < kReplicas; ++r) {
    std::vector<Tensor> inputs = batch_of(step, r, 1);
    inputs.push_back(w);
    gradients.push_back(interpret(graph, inputs)[0]);
  }
  Tensor sum(w.type());
  for (std::size_t i = 0; i < kWeights; ++i)
    sum.f32()[i] = tree_sum(0, kReplicas, [&](std::int64_t r) {
      return gradients[static_cast<std::size_t>(r)].f32()[i];
    });
  if (kind == Step::kLimitedNorm) {
    const std::vector<float> squares = {sum_of_squares(sum.f32())};
    const float factor = clip_factor(global_norm(squares, std::vector<std::int64_t>{0, 1}), kLimit);
    PODIUM_CHECK(factor < 1, "the limit is not reached");
    for (float& value : sum.f32()) value *= factor;
  }
  return interpret(update_graph(kind), std::vector<Tensor>{w, sum})[0];
}

// The step on the device.
class ReplicatedStep {
 public:
  explicit ReplicatedStep(Device& device, Step kind)
      : device_(device),
        kind_(kind),
        x_(device.allocate(kReplicas * kImages * kFeatures * kWord)),
        labels_(device.allocate(kReplicas * kImages * kWord)),
        w_(device.allocate(kWeights * kWord)),
        sum_(device.allocate((kWeights + 1) * kWord)),
        losses_(device.allocate(kReplicas * kWord)),
        squares_(device.allocate(kWord)),
        norm_values_(device.allocate(2 * kWord)),
        replica_(device, replica_graph(), {}),
        square_(device, square_graph(), {}),
        norm_(device, norm_graph(), {}),
        scale_(device, scale_graph(), {.donations = {{"scaled", "sum"}}}),
        update_(device, update_graph(kind), {.donations = {{"new_w", "w"}}}) {
    StepProgram step{.workers = {}, .sum = *sum_, .loss = View(*sum_).part(kWeights * kWord, 4)};
    StepProgram::Worker& worker = step.workers.emplace_back();
    worker.losses = *losses_;
    for (std::int64_t r = 0; r < kReplicas; ++r) {
      replica_.bind_input("x", images(r));
      replica_.bind_input("labels", labels(r));
      replica_.bind_input("w", *w_);
      replica_.bind_output("dw", View(*sum_).part(0, kWeights * kWord));
      replica_.bind_output("loss", step.loss);
      worker.replicas.push_back(replica_.call());
    }
    update_.bind_input("w", *w_);
    update_.bind_input("sum", View(*sum_).part(0, kWeights * kWord));
    worker.updates.push_back(update_.call());
    if (kind == Step::kLimitedNorm) limit_norm(worker);
    program_ = device.compile_step(step);
    set_weights(first_weights());
  }

  void set_weights(const Tensor& w) { device_.upload(*w_, w.data()); }
  Tensor weights() const {
    Tensor w(f32({kFeatures, kClasses}));
    device_.download(w.data(), *w_);
    return w;
  }
  void run(std::int64_t step, float factor) {
    for (std::int64_t r = 0; r < kReplicas; ++r) {
      const std::vector<Tensor> batch = batch_of(step, r, factor);
      device_.upload(images(r), batch[0].data());
      device_.upload(labels(r), batch[1].data());
    }
    program_->run();
  }

 private:
  View images(std::int64_t r) const {
    const std::int64_t bytes = kImages * kFeatures * kWord;
    // Not at equal distances: then no launch computes several replicas.
    if (kind_ == Step::kUpdateNeedsMore && r < 2) r = 1 - r;
    return View(*x_).part(r * bytes, bytes);
  }
  View labels(std::int64_t r) const {
    return View(*labels_).part(r * kImages * kWord, kImages * kWord);
  }

  void limit_norm(StepProgram::Worker& worker) {
    const View sum = View(*sum_).part(0, kWeights * kWord), values = *norm_values_;
    square_.bind_input("sum", sum);
    square_.bind_output("squares", *squares_);
    worker.squares.push_back(square_.call());
    norm_.bind_input("squares", *squares_);
    norm_.bind_output("norm", values.part(0, kWord));
    norm_.bind_output("factor", values.part(kWord, kWord));
    worker.norm = norm_.call();
    worker.norm_values = values;
    scale_.bind_input("sum", sum);
    scale_.bind_input("factor", values.part(kWord, kWord));
    worker.scales.push_back(scale_.call());
  }

  Device& device_;
  const Step kind_;
  std::unique_ptr<Buffer> x_, labels_, w_, sum_, losses_, squares_, norm_values_;
  BoundExecutable replica_, square_, norm_, scale_, update_;
  std::unique_ptr<WholeStep> program_;
};

// Steps that are launched, recorded and played; such that update nothing, since a loss or the norm
// is not finite; parameters that are set after a step.
std::string difference_of_step(Device& device, Step kind) {
  ReplicatedStep step(device, kind);
  Tensor expected = first_weights();
  for (std::int64_t i = 0; i < 4; ++i) {
    step.run(i, 1);
    expected = expected_after(expected, i, kind);
    const std::string found = first_difference(step.weights(), expected);
    if (!found.empty()) return cat("after step ", i, ": ", found);
  }
  step.run(4, kNanLoss);
  if (kind == Step::kLimitedNorm) step.run(5, kInfiniteNorm);
  const std::string changed = first_difference(step.weights(), expected);
  if (!changed.empty()) return cat("after steps that are not finite: ", changed);
  step.run(6, 1);
  const Tensor other = random_operand(f32({kFeatures, kClasses}), 10, kClasses);
  step.set_weights(other);
  return first_difference(step.weights(), other);
}
std::string difference_of_plain_step(Device& device) {
  return difference_of_step(device, Step::kPlain);
}

// A program that runs with some memory, and then with other memory, twice each.
std::string difference_in_other_memory(Device& device) {
  const auto w = device.allocate(kWeights * kWord), sum = device.allocate(kWeights * kWord);
  BoundExecutable program(device, update_graph(), {});
  program.bind_input("w", *w);
  program.bind_input("sum", *sum);
  const Tensor values = first_weights();
  device.upload(*w, values.data());
  std::vector<std::unique_ptr<Buffer>> outs;
  for (int i = 0; i < 2; ++i) {
    const auto& out = outs.emplace_back(device.allocate(kWeights * kWord));
    program.bind_output("new_w", *out);
    program.run();
    program.run();
    Tensor actual(values.type());
    device.download(actual.data(), *out);
    const std::string found = first_difference(actual, values);  // w - 0
    if (!found.empty()) return found;
  }
  return "";
}

// Two GPUs that go on with each other's results.
std::string difference_between_gpus(Device& /*device*/) {
  set_cuda_devices(2);
  const std::unique_ptr<Device> both = make_device("cuda-emulated", {.workers = 2});
  set_cuda_devices(1);
  const Tensor w = first_weights(), sum = random_operand(w.type(), 11, kClasses);
  const auto sums = both->allocate(kWeights * kWord), one = both->allocate(kWeights * kWord),
             other = both->allocate(kWeights * kWord);
  both->upload(*sums, sum.data());
  both->upload(*one, w.data());
  BoundExecutable first(*both, update_graph(), {.worker = 0}),
      second(*both, update_graph(), {.worker = 1});
  for (auto& [program, from, to] : {std::tuple{&first, &other, &one}, {&second, &one, &other}}) {
    program->bind_input("w", **from);
    program->bind_input("sum", *sums);
    program->bind_output("new_w", **to);
  }
  Tensor expected = w;
  constexpr int kTurns = 3;
  for (int i = 0; i < 2 * kTurns; ++i) {
    (i % 2 == 0 ? second : first).run();
    expected = interpret(update_graph(), std::vector<Tensor>{expected, sum})[0];
  }
  Tensor actual(w.type());
  both->download(actual.data(), *one);
  return first_difference(actual, expected);
}

// The same where each does its work as late as it may.
std::string difference_between_late_gpus(Device& device) {
  set_cuda_late(true);
  const std::string found = difference_between_gpus(device);
  set_cuda_late(false);
  return found;
}

// --- how each fault is found

enum class FoundBy : std::uint8_t {
  kBits,
  kException,   // an InternalError
  kEnd,         // the emulation, or the processor, ends the program
  kAddresses,   // AddressSanitizer alone
  kRaces,       // ThreadSanitizer, and bits
  kRacesAlone,  // ThreadSanitizer alone: bits do not differ
};
struct Finding {
  FoundBy by;
  std::string message;  // of an exception or an end
  // Looks at what the fault may spoil; says what differs from the contract.
  std::function<std::string(Device&)> look;
};

// Looks at the samples of an operation.
std::function<std::string(Device&)> at_samples(const OpDef& op, Values values = Values::kPlain) {
  return [&op, values](Device& device) {
    for (const OpSample& sample : op.samples()) {
      std::string found = difference(device, op, sample, values);
      if (!found.empty()) return found;
    }
    return std::string();
  };
}

// Looks for NaN, which no operand is, in products of BF16 operands in the order of the emulated
// GPU.
std::string nan_in_products(Device& device) {
  const OpDef& op = conv2d_bf16_op;
  for (const OpSample& sample : op.samples())
    if (sample.attributes.as<Conv2dAttributes>().order == Bf16Order::kHopper)
      for (const Tensor& y : run_case(device, case_of(op, sample, Values::kPlain), {}))
        if (std::ranges::any_of(y.f32(), [](float v) { return std::isnan(v); }))
          return cat(op.name, " {", sample.attributes.text(), "}: NaN");
  return "";
}

// Looks for sums of a warpgroup's tiles that are not those of warps.
std::string difference_of_warpgroups(Device& /*device*/) {
  set_cuda_thread_order("reverse");
  const Stream stream = runtime::make_stream();
  const WarpgroupProbe probe = probe_warpgroups(stream, runtime::find_devices().devices[0]);
  runtime::destroy_stream(stream);
  if (probe.sums == 0) return "nothing was compared";
  return probe.differences == 0 ? "" : cat(probe.differences, " of ", probe.sums, " sums differ");
}

Finding finding_of(SeededFault fault) {
  const auto product = at_samples(matmul_op);
  switch (fault) {
    case SeededFault::kNone: break;
    case SeededFault::kTileReadTooEarly:
    case SeededFault::kTileWrittenTooEarly: return {FoundBy::kRaces, "data race", product};
    case SeededFault::kCopyNotWaited: return {FoundBy::kBits, "", nan_in_products};
    case SeededFault::kOperandsNotWaited:
    case SeededFault::kProductsNotWaited: return {FoundBy::kBits, "", difference_of_warpgroups};
    case SeededFault::kTreeWithoutBarrier:
      return {FoundBy::kRaces, "data race", at_samples(global_norm_op)};
    case SeededFault::kSameValueTwice:
      return {FoundBy::kRacesAlone, "data race", at_samples(hash_sum_op)};
    case SeededFault::kBarrierInBranch:
      return {FoundBy::kEnd, "a barrier that not all threads reach", at_samples(hash_sum_op)};
    case SeededFault::kLaneMissingInMask:
      return {FoundBy::kEnd, "a lane that its mask lacks", at_samples(channel_sum_op)};
    case SeededFault::kHostReadsDevice: return {FoundBy::kEnd, "", difference_of_plain_step};
    case SeededFault::kSharedTooSmall:
      return {FoundBy::kAddresses, "heap-buffer-overflow", at_samples(conv2d_op)};
    case SeededFault::kReadsBeyondEnd:
      return {FoundBy::kAddresses, "heap-buffer-overflow", product};
    case SeededFault::kSharedUnwritten: return {FoundBy::kBits, "", at_samples(channel_sum_op)};
    case SeededFault::kScratchUnwritten: return {FoundBy::kBits, "", at_samples(batch_norm_op)};
    case SeededFault::kTermsReversed:
    case SeededFault::kRunsJoined:
    case SeededFault::kEdgeOffByOne: return {FoundBy::kBits, "", product};
    case SeededFault::kContracted: return {FoundBy::kBits, "", at_samples(conv2d_winograd_op)};
    case SeededFault::kPaddingMultiplied:
      return {FoundBy::kBits, "", at_samples(conv2d_op, Values::kTiny)};
    case SeededFault::kReplicaForgotten:
    case SeededFault::kTreeAsChain:
    case SeededFault::kUpdateWithoutLosses:
    case SeededFault::kUploadTooEarly: return {FoundBy::kBits, "", difference_of_plain_step};
    case SeededFault::kWaitsWhileRecording:
      return {FoundBy::kException, "a recording cannot wait", difference_of_plain_step};
    case SeededFault::kPeerCopyLost:
    case SeededFault::kPeerCopyShort:
    case SeededFault::kPeerCopyLate:
    case SeededFault::kPeerCopyStale: return {FoundBy::kBits, "", difference_between_gpus};
    case SeededFault::kPeerCopyNotAwaited:
      return {FoundBy::kBits, "", difference_between_late_gpus};
    case SeededFault::kStaleRecording: return {FoundBy::kBits, "", difference_in_other_memory};
  }
  PODIUM_CHECK(false, "no such fault");
}

struct Listed {
  SeededFault fault;
  const char *name, *what;
};
void PrintTo(const Listed& listed, std::ostream* to) { *to << listed.what; }

constexpr Listed kList[] = {
#define PODIUM_SEEDED_FAULT(name, what) {SeededFault::name, #name, what},
    PODIUM_SEEDED_FAULTS(PODIUM_SEEDED_FAULT)
#undef PODIUM_SEEDED_FAULT
};

// Those that this build's sanitizer, or its lack, can find. The others run in another build.
std::vector<Listed> of_this_build() {
  std::vector<Listed> list;
  for (const Listed& listed : kList) {
    const FoundBy by = finding_of(listed.fault).by;
#if defined(PODIUM_ADDRESS_SANITIZER)
    const bool here = by == FoundBy::kAddresses;
#elif defined(PODIUM_THREAD_SANITIZER)
    const bool here = by == FoundBy::kRaces || by == FoundBy::kRacesAlone;
#else
    const bool here = by != FoundBy::kAddresses && by != FoundBy::kRacesAlone;
#endif
    if (here) list.push_back(listed);
  }
  return list;
}

class SeededFaults : public testing::TestWithParam<Listed> {
 protected:
  SeededFaults() {
    register_cuda_emulated_backend();
    device_ = make_device("cuda-emulated");
  }
  ~SeededFaults() override {
    g_seeded_fault = SeededFault::kNone;
    set_cuda_thread_order("forward");
  }
  std::unique_ptr<Device> device_;
};

TEST_P(SeededFaults, are_found) {
  const Finding finding = finding_of(GetParam().fault);
  const auto look = [&] {
    g_seeded_fault = GetParam().fault;
    return finding.look(*device_);
  };
#if defined(PODIUM_ADDRESS_SANITIZER) || defined(PODIUM_THREAD_SANITIZER)
  EXPECT_DEATH(look(), finding.message);
#else
  switch (finding.by) {
    case FoundBy::kEnd: EXPECT_DEATH(look(), finding.message); break;
    case FoundBy::kException:
      try {
        look();
        FAIL() << "not found";
      } catch (const InternalError& error) {
        EXPECT_NE(std::string(error.what()).find(finding.message), std::string::npos)
            << error.what();
      }
      break;
    default: EXPECT_NE(look(), ""); break;
  }
#endif
}

INSTANTIATE_TEST_SUITE_P(List, SeededFaults, testing::ValuesIn(of_this_build()),
                         [](const auto& tested) { return std::string(tested.param.name + 1); });

// Of the operations, conformance_test.cc shows it.
TEST_F(SeededFaults, are_not_found_where_none_is) {
  for (const Step kind : {Step::kPlain, Step::kUpdateNeedsMore, Step::kLimitedNorm})
    EXPECT_EQ(difference_of_step(*device_, kind), "") << static_cast<int>(kind);
  EXPECT_EQ(difference_in_other_memory(*device_), "");
  EXPECT_EQ(nan_in_products(*device_), "");
  EXPECT_EQ(difference_of_warpgroups(*device_), "");
  EXPECT_EQ(difference_between_gpus(*device_), "");
  EXPECT_EQ(difference_between_late_gpus(*device_), "");
}

#if !defined(PODIUM_ADDRESS_SANITIZER) && !defined(PODIUM_THREAD_SANITIZER)
TEST_F(SeededFaults, that_only_a_sanitizer_finds_change_no_bit) {
  g_seeded_fault = SeededFault::kSameValueTwice;
  EXPECT_EQ(finding_of(g_seeded_fault).look(*device_), "");
}
#endif

}  // namespace
}  // namespace podium::cuda_emulated
