// The kernels that multiply, on the emulation, against the contracts: bits, on the samples of their
// operations and on shapes that cut tiles, with several replicas, orders of threads and values that
// show what was left out.
#include "backend/cuda/kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/emulated/simt_emulated.h"
#include "backend/cuda/kernels/conv/winograd.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/runtime.h"
#include "backend/operation_case.h"
#include "ops/ops.h"

namespace podium::cuda_emulated {
namespace {

// Memory of the device for a tensor of each replica, a little apart.
class DeviceTensors {
 public:
  DeviceTensors(Stream stream, std::int64_t floats, int replicas, bool shared)
      : stream_(stream), floats_(floats), stride_(shared ? 0 : (floats + 7) / 4 * 4) {
    const std::int64_t all = stride_ * (replicas - 1) + floats;
    memory_ = static_cast<float*>(runtime::allocate(all * 4));
    // What is read before it is written shows.
    const std::vector<float> poison(static_cast<std::size_t>(all) + 1,
                                    std::numeric_limits<float>::quiet_NaN());
    runtime::upload(stream, memory_, poison.data(), all * 4);
  }
  ~DeviceTensors() { runtime::deallocate(memory_); }
  DeviceTensors(const DeviceTensors&) = delete;
  DeviceTensors& operator=(const DeviceTensors&) = delete;

  void upload(int replica, const std::vector<float>& values) {
    runtime::upload(stream_, memory_ + replica * stride_, values.data(), floats_ * 4);
  }
  std::vector<float> download(int replica) const {
    std::vector<float> values(static_cast<std::size_t>(floats_));
    runtime::download(stream_, values.data(), memory_ + replica * stride_, floats_ * 4);
    return values;
  }
  Floats each() const { return {memory_, stride_}; }

 private:
  Stream stream_;
  std::int64_t floats_, stride_;
  float* memory_;
};

std::vector<float> turned(std::span<const float> x, std::int64_t rows) {
  const auto r = static_cast<std::size_t>(rows), columns = x.size() / r;
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < r; ++i)
    for (std::size_t j = 0; j < columns; ++j) y[j * r + i] = x[i * columns + j];
  return y;
}

// What a test draws, beside numbers around 1.
enum class Values : std::uint8_t {
  kPlain,
  kTiny,     // products vanish, and leave a sign
  kSpecial,  // some are infinite, NaN, -0 or subnormal
};
Tensor draw(const TensorType& type, std::uint32_t stream, Values values) {
  Tensor tensor = random_operand(type, stream, 10);
  const auto x = tensor.f32();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (values == Values::kTiny) x[i] *= i % 3 == 0 ? 1e-23f : -2e-22f;
    if (values == Values::kSpecial && (i * 7919 + stream) % 97 == 0) {
      constexpr float kSpecial[] = {-0.0f, 1e-39f, std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};
      x[i] = kSpecial[i / 97 % 5];
    }
  }
  return tensor;
}

struct Options {
  int replicas = 1;
  bool shared_weights = true;
  Values values = Values::kPlain;
  // Which operands of a product, and whether its result, have the batch last.
  bool a_last = false, b_last = false, y_last = false;
};

// Operands and results on the device, as a kernel wants them.
struct Run {
  Launch launch;
  std::vector<Floats> in, out;
  std::function<Floats(std::int64_t)> scratch;
};

void launch_matmul(const Run& run, const OpSample& sample, const Shape& y, const Options& o) {
  const auto& t = sample.attributes.as<MatmulAttributes>();
  const auto layout = [](const Shape& s, bool last, bool transposes) {
    const MatrixLayout l = last ? MatrixLayout{1, s[0]} : MatrixLayout{s[1], 1};
    return transposes ? MatrixLayout{l.column, l.row} : l;
  };
  const Shape &a = sample.inputs[0].shape, &b = sample.inputs[1].shape;
  const MatmulShape shape{y[0],
                          a[t.transpose_a ? 0 : 1],
                          y[1],
                          layout(a, o.a_last, t.transpose_a),
                          layout(b, o.b_last, t.transpose_b),
                          layout(y, o.y_last, false)};
  matmul(run.launch, shape, run.in[0], run.in[1], run.out[0], run.scratch(matmul_scratch(shape)));
}

void launch_conv(const Run& run, const OpDef& op, const OpSample& sample, const Shape& out) {
  const auto& a = sample.attributes.as<Conv2dAttributes>();
  const Shape &first = sample.inputs[0].shape, &second = sample.inputs[1].shape;
  const Floats affine = a.normalises ? run.in.back() : Floats{};
  const Floats places = a.pools && run.in.size() > 2 ? run.in[2] : Floats{};
  const WinogradNorm norm{affine, a.activation};
  if (op.kind == OpKind::kConv2d) {
    const ConvShape s = conv_shape(a, first, second, out);
    conv2d(run.launch, s, run.in[0], run.in[1], run.out[0], run.scratch(conv2d_scratch(s)));
  } else if (op.kind == OpKind::kConv2dGradInput) {
    const ConvShape s = conv_shape(a, out, second, first);
    conv2d_grad_input(run.launch, s, run.in[0], run.in[1], run.out[0],
                      run.scratch(conv2d_grad_input_scratch(s)));
  } else if (op.kind == OpKind::kConv2dGradWeight) {
    const ConvShape s = conv_shape(a, first, out, second);
    conv2d_grad_weight(run.launch, s, run.in[0], run.in[1], run.out[0],
                       run.scratch(conv2d_grad_weight_scratch(s)));
  } else if (op.kind == OpKind::kConv2dWinograd) {
    const ConvShape s = conv_shape(a, first, second, out);
    conv2d_winograd(run.launch, s, run.in[0], run.in[1],
                    {run.out[0], a.pools, a.places ? run.out[1] : Floats{}},
                    run.scratch(conv2d_winograd_scratch(s)), norm);
  } else if (op.kind == OpKind::kConv2dWinogradGradInput) {
    const ConvShape s = conv_shape(a, out, second, first);
    conv2d_winograd_grad_input(run.launch, s, {run.in[0], places}, run.in[1], run.out[0],
                               run.scratch(conv2d_winograd_grad_input_scratch(s)));
  } else {
    const ConvShape s = conv_shape(a, first, out, second);
    conv2d_winograd_grad_weight(run.launch, s, run.in[0], {run.in[1], places}, run.out[0],
                                run.scratch(conv2d_winograd_grad_weight_scratch(s)), norm);
  }
}

bool gives_weights(const OpDef& op) {
  return op.kind == OpKind::kConv2dGradWeight || op.kind == OpKind::kConv2dWinogradGradWeight;
}

// The first difference between a kernel and the contract, for people; empty: none.
std::string difference(const OpDef& op, const OpSample& sample, const Options& o) {
  const bool product = op.kind == OpKind::kMatmul;
  const std::vector<TensorType> types =
      op.infer(InferContext("sample", sample.attributes, sample.inputs));
  const Stream stream = runtime::make_stream();
  std::vector<std::vector<Tensor>> operands, wanted;  // by replica
  const auto is_shared = [&](std::size_t i) {
    return i == 1 && o.shared_weights && !gives_weights(op);
  };
  const auto is_last = [&](std::size_t i) {
    if (product) return i == 0 ? o.a_last : o.b_last;
    const bool affine =
        i > 1 && i + 1 == sample.inputs.size() && sample.inputs[i].shape.rank() == 2;
    return !affine && (i != 1 || gives_weights(op));
  };
  for (int r = 0; r < o.replicas; ++r) {
    auto& in = operands.emplace_back();
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
      const auto draws = static_cast<std::uint32_t>(is_shared(i) ? i : i + 16 * r);
      in.push_back(draw(sample.inputs[i], draws, o.values));
      if (!product && i == 2 && sample.inputs[i].shape.rank() == 4) {
        in[i] = random_operand(sample.inputs[i], draws, 10);
        for (float& x : in[i].f32()) x = std::floor(x + 2);
      }
    }
    auto& out = wanted.emplace_back();
    std::vector<const Tensor*> reads;
    std::vector<Tensor*> writes;
    for (const TensorType& type : types) out.emplace_back(type);
    for (const Tensor& tensor : in) reads.push_back(&tensor);
    for (Tensor& tensor : out) writes.push_back(&tensor);
    op.reference(sample.attributes, reads, writes);
  }
  std::vector<std::unique_ptr<DeviceTensors>> memory;
  const auto add = [&](std::int64_t floats, bool shared) -> DeviceTensors& {
    return *memory.emplace_back(
        std::make_unique<DeviceTensors>(stream, floats, o.replicas, shared));
  };
  Run run{
      {stream, o.replicas}, {}, {}, [&](std::int64_t floats) { return add(floats, false).each(); }};
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const Shape& shape = sample.inputs[i].shape;
    DeviceTensors& tensors = add(shape.elements(), is_shared(i));
    for (int r = 0; r < o.replicas; ++r) {
      const auto values = operands[static_cast<std::size_t>(r)][i].f32();
      tensors.upload(is_shared(i) ? 0 : r, is_last(i) ? turned(values, shape[0])
                                                      : std::vector(values.begin(), values.end()));
    }
    run.in.push_back(tensors.each());
  }
  const std::size_t first_out = memory.size();
  for (const TensorType& type : types) run.out.push_back(add(type.shape.elements(), false).each());
  if (product)
    launch_matmul(run, sample, types[0].shape, o);
  else
    launch_conv(run, op, sample, types[0].shape);
  std::string found;
  for (std::size_t i = 0; i < types.size(); ++i)
    for (int r = 0; r < o.replicas && found.empty(); ++r) {
      std::vector<float> values = memory[first_out + i]->download(r);
      const bool last = product ? o.y_last : !gives_weights(op);
      if (last) values = turned(values, types[i].shape.elements() / types[i].shape[0]);
      Tensor actual(types[i]);
      std::copy(values.begin(), values.end(), actual.f32().begin());
      found = first_difference(actual, wanted[static_cast<std::size_t>(r)][i]);
      if (!found.empty()) found = cat("result ", i, " of replica ", r, ", ", found);
    }
  memory.clear();
  runtime::destroy_stream(stream);
  return found;
}

const OpDef* const kOps[] = {&matmul_op,
                             &conv2d_op,
                             &conv2d_grad_input_op,
                             &conv2d_grad_weight_op,
                             &conv2d_winograd_op,
                             &conv2d_winograd_grad_input_op,
                             &conv2d_winograd_grad_weight_op};

std::string described(const OpDef& op, const OpSample& sample) {
  std::string text = cat(op.name, " ", sample.attributes.text());
  for (const TensorType& type : sample.inputs) text += " " + to_string(type);
  return text;
}

// Every few of an operation's samples; conformance_test.cc has them all.
void expect_bits(std::size_t first, std::size_t step, const Options& options) {
  for (const OpDef* op : kOps) {
    const std::vector<OpSample> samples = op->samples();
    for (std::size_t i = first; i < samples.size(); i += step)
      EXPECT_EQ(difference(*op, samples[i], options), "") << described(*op, samples[i]);
  }
}

TEST(CudaProducts, leave_out_what_the_contract_leaves_out) {
  expect_bits(0, 4, {.values = Values::kTiny});
  expect_bits(2, 4, {.values = Values::kSpecial});
}

TEST(CudaProducts, of_several_replicas_are_those_of_each) {
  expect_bits(1, 6, {.replicas = 3, .shared_weights = true});
  expect_bits(4, 6, {.replicas = 3, .shared_weights = false});
}

TEST(CudaProducts, do_not_depend_on_the_order_of_threads) {
  for (const simt::Order order : {simt::Order::kReverse, simt::Order::kShuffled}) {
    simt::set_order(order);
    expect_bits(order == simt::Order::kReverse ? 1 : 3, 6, {});
  }
  simt::set_order(simt::Order::kForward);
}

// x [N, C, H, H] and K filters of 3x3, for one of the operations of a convolution.
OpSample sample_of(const OpDef& op, std::int64_t images, std::int64_t channels, std::int64_t size,
                   std::int64_t filters) {
  const Shape x{images, channels, size, size}, y{images, filters, size, size},
      w{filters, channels, 3, 3};
  Conv2dAttributes a = same_padding(x, 3, 3, 1);
  const bool to_input =
      op.kind == OpKind::kConv2dGradInput || op.kind == OpKind::kConv2dWinogradGradInput;
  if (to_input) a.extent_h = a.extent_w = size;
  if (gives_weights(op)) a.extent_h = a.extent_w = 3;
  return {a, {{DType::kF32, to_input ? y : x}, {DType::kF32, gives_weights(op) ? y : w}}};
}

TEST(CudaWinograd, works_in_several_turns_where_scratch_memory_is_too_small) {
  for (const OpDef* op :
       {&conv2d_winograd_op, &conv2d_winograd_grad_input_op, &conv2d_winograd_grad_weight_op}) {
    // The columns of the second replica begin within a turn; a group of images takes two.
    EXPECT_EQ(difference(*op, sample_of(*op, 128, 112, 16, 16), {.replicas = 2}), "") << op->name;
  }
  // Some groups of images at a time, the last of which is short.
  const OpDef& op = conv2d_winograd_grad_weight_op;
  EXPECT_EQ(difference(op, sample_of(op, 410, 16, 16, 16), {.replicas = 3}), "");
}

TEST(CudaWinograd, makes_runs_side_by_side_where_sums_are_few) {
  // A run and a half, the last block of images being short; and a group for each of two replicas.
  const OpDef& op = conv2d_winograd_grad_weight_op;
  for (const Values values : {Values::kPlain, Values::kTiny})
    EXPECT_EQ(difference(op, sample_of(op, 40, 20, 16, 16), {.replicas = 2, .values = values}), "");
}

TEST(CudaConvolutions, have_tiles_for_many_channels) {
  for (const OpDef* op :
       {&conv2d_op, &conv2d_grad_input_op, &conv2d_grad_weight_op, &conv2d_winograd_op,
        &conv2d_winograd_grad_input_op, &conv2d_winograd_grad_weight_op})
    EXPECT_EQ(difference(*op, sample_of(*op, 5, 130, 4, 144), {}), "") << op->name;
  // Columns that fill blocks of the largest tile of a product.
  EXPECT_EQ(difference(conv2d_winograd_op, sample_of(conv2d_winograd_op, 384, 16, 4, 144), {}), "");
}

TEST(CudaMatmul, reads_and_writes_every_layout) {
  for (const bool transposed : {false, true})
    for (int layouts = 0; layouts < 8; ++layouts) {
      const OpSample sample{MatmulAttributes{transposed, !transposed},
                            {{DType::kF32, transposed ? Shape{36, 68} : Shape{68, 36}},
                             {DType::kF32, transposed ? Shape{36, 44} : Shape{44, 36}}}};
      EXPECT_EQ(difference(matmul_op, sample,
                           {.a_last = (layouts & 1) != 0,
                            .b_last = (layouts & 2) != 0,
                            .y_last = (layouts & 4) != 0}),
                "")
          << transposed << layouts;
    }
}

TEST(CudaMatmul, has_tiles_for_every_size_and_shares_the_runs_of_a_few) {
  for (const auto& [m, k, n] :
       {std::array<std::int64_t, 3>{5, 1300, 7}, {40, 2048, 36}, {600, 20, 516}, {1030, 20, 1024}})
    EXPECT_EQ(
        difference(matmul_op,
                   {MatmulAttributes{}, {{DType::kF32, Shape{m, k}}, {DType::kF32, Shape{k, n}}}},
                   {.replicas = 2}),
        "");
}

}  // namespace
}  // namespace podium::cuda_emulated
