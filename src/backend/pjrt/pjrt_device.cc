#include "backend/pjrt/pjrt_device.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "backend/host_device.h"
#include "backend/pjrt/memory.h"
#include "backend/pjrt/whole_step.h"
#include "compile/memory_plan.h"
#include "compile/stablehlo/stablehlo.h"
#include "ops/ops.h"

namespace podium {
namespace pjrt {
namespace {

using stablehlo::Builder;
using stablehlo::HloValue;

// Views of at most so many words are not part of a compiled program: where they begin is an operand
// of it. So one program serves all replicas, whose losses stand side by side.
constexpr std::int64_t kMovable = 16;

Plan plan_of(const Graph& graph, const CompileOptions& options) {
  Plan plan = interface_of(graph, options);
  std::vector<Lifetime> lives;
  std::vector<std::vector<std::size_t>> life_of(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto step = static_cast<std::int64_t>(i);
    for (const Value value : node.inputs)
      if (const auto& own = life_of[static_cast<std::size_t>(value.node)]; !own.empty())
        lives[own[static_cast<std::size_t>(value.output)]].last = step;
    if (node.op == nullptr) continue;
    std::vector<TensorType> inputs;
    for (const Value value : node.inputs) inputs.push_back(graph.type(value));
    const Cost cost = cost_of(*node.op, node.attributes, inputs, node.outputs);
    plan.kernels.push_back({cat(node.op->name, " ", node.name), cost.flops, cost.bytes});
    for (const TensorType& type : node.outputs) {
      life_of[i].push_back(lives.size());
      lives.push_back({.bytes = type.bytes(), .first = step, .last = step});
    }
  }
  plan.arena_bytes = plan_memory(lives).bytes;
  return plan;
}

// Which buffers the views of a run are ranges of, and where.
struct Binding {
  struct Range {
    std::size_t buffer;         // in `buffers`
    std::int64_t first, words;  // `first` is -1 where it is an operand
    std::size_t operand = 0;    // then: which
    auto operator<=>(const Range&) const = default;
  };
  struct BoundBuffer {
    std::int64_t words;
    bool is_read, is_written;
    auto operator<=>(const BoundBuffer&) const = default;
  };
  std::vector<Range> inputs, outputs;
  std::vector<BoundBuffer> sizes;
  auto operator<=>(const Binding&) const = default;
};

struct BoundViews {
  Binding binding;
  std::vector<WordBuffer*> buffers;
  std::vector<std::int32_t> operands;
};

BoundViews bind(std::span<const View> inputs, std::span<const View> outputs) {
  BoundViews bound;
  const auto range_of = [&](const View& view, bool is_output) {
    WordBuffer& buffer = words_of(view);
    const auto known = std::ranges::find(bound.buffers, &buffer);
    const auto number = static_cast<std::size_t>(known - bound.buffers.begin());
    if (known == bound.buffers.end()) {
      bound.buffers.push_back(&buffer);
      bound.binding.sizes.push_back({buffer.words(), false, false});
    }
    Binding::BoundBuffer& size = bound.binding.sizes[number];
    Binding::Range range{number, view.offset / 4, (view.bytes + 3) / 4};
    const bool is_whole = range.words == size.words;
    // What is left of a buffer that is written in part has to be there before.
    size.is_read = size.is_read || !is_output || !is_whole;
    size.is_written = size.is_written || is_output;
    if (!is_whole && range.words <= kMovable) {
      range.operand = bound.operands.size();
      bound.operands.push_back(static_cast<std::int32_t>(range.first));
      range.first = -1;
    }
    return range;
  };
  for (const View& view : inputs) bound.binding.inputs.push_back(range_of(view, false));
  for (const View& view : outputs) bound.binding.outputs.push_back(range_of(view, true));
  return bound;
}

// A module: for each buffer that is read its vector, then the operands; results are the vectors of
// those that are written, anew.
class BoundModule {
 public:
  BoundModule(const Graph& graph, const Binding& binding, std::size_t operands)
      : graph_(graph), binding_(binding), values_(binding.sizes.size()) {
    std::size_t written = 0;
    for (std::size_t i = 0; i < binding.sizes.size(); ++i) {
      const Binding::BoundBuffer& size = binding.sizes[i];
      const std::size_t result = size.is_written ? written++ : 0;
      if (!size.is_read) continue;
      const std::string donated =
          size.is_written ? cat(" {tf.aliasing_output = ", result, " : i32}") : "";
      values_[i] = argument({DType::kU32, Shape{size.words}}, donated);
    }
    if (operands > 0)
      operands_ = argument({DType::kI32, Shape{static_cast<std::int64_t>(operands)}}, "");
  }

  std::string text(const std::string& name) {
    const std::vector<HloValue> results = stablehlo::emit(b_, graph_, inputs());
    for (std::size_t i = 0; i < results.size(); ++i) write(binding_.outputs[i], results[i]);
    std::vector<HloValue> written;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (binding_.sizes[i].is_written) written.push_back(values_[i]);
    return module_around(name, arguments_, b_, written);
  }

  // One result, ui32: of each node whether all its FP32 results are finite.
  std::string finite_text(std::vector<std::string>& names) {
    std::vector<HloValue> flags;
    stablehlo::emit(b_, graph_, inputs(), [&](const Node& node, std::span<const HloValue> made) {
      for (const HloValue& value : made) {
        if (value.element != "f32") continue;
        const HloValue flat = b_.reshape(value, Shape{value.shape.elements()});
        const HloValue finite = b_.make("i1", flat.shape,
                                        cat("stablehlo.is_finite ", flat.name, " : (", flat.type(),
                                            ") -> ", stablehlo::type_text("i1", flat.shape)));
        const std::int64_t axes[] = {0};
        const HloValue all = b_.reduce(finite, "and", b_.integer("i1", 1), axes);
        flags.push_back(b_.reshape(b_.convert(all, "ui32"), Shape{1}));
        names.push_back(cat(node.op->name, " ", node.name));
      }
    });
    if (flags.empty()) return "";
    const HloValue result = b_.concatenate(flags, 0);
    return module_around("find_non_finite", arguments_, b_, {&result, 1});
  }

 private:
  HloValue argument(const TensorType& type, const std::string& attribute) {
    HloValue value = b_.argument(arguments_.size(), type);
    arguments_.push_back(cat(value.name, ": ", value.type(), attribute));
    return value;
  }

  HloValue first_of(const Binding::Range& range) {
    if (range.first >= 0) return b_.integer("i32", static_cast<std::uint64_t>(range.first));
    return b_.reshape(b_.slice(operands_, 0, static_cast<std::int64_t>(range.operand), 1), Shape{});
  }

  std::vector<HloValue> inputs() {
    std::vector<HloValue> found;
    for (std::size_t i = 0; i < binding_.inputs.size(); ++i) {
      const Binding::Range& range = binding_.inputs[i];
      const TensorType& type = graph_.type(graph_.inputs()[i].value);
      HloValue value = values_[range.buffer];
      if (range.words != value.shape[0])
        value = range.first >= 0 ? b_.slice(value, 0, range.first, range.words)
                                 : b_.dynamic_slice(value, first_of(range), range.words);
      value = b_.bitcast(value, stablehlo::element_of(type.dtype));
      found.push_back(b_.reshape(value, type.shape));
    }
    return found;
  }

  void write(const Binding::Range& range, const HloValue& result) {
    const HloValue flat = b_.reshape(result, Shape{range.words});
    const HloValue words = b_.bitcast(flat, "ui32");
    HloValue& buffer = values_[range.buffer];
    buffer = range.words == binding_.sizes[range.buffer].words
                 ? words
                 : b_.dynamic_update_slice(buffer, words, first_of(range));
  }

  Builder b_{"HIGHEST"};
  const Graph& graph_;
  const Binding& binding_;
  std::vector<HloValue> values_;  // of each buffer, as it is by now
  std::vector<std::string> arguments_;
  HloValue operands_;
};

class PjrtExecutable : public Executable {
 public:
  PjrtExecutable(Memory& memory, const Graph& graph, const CompileOptions& options, int device)
      : memory_(memory),
        graph_(without_dead_nodes(graph)),
        plan_(plan_of(graph_, options)),
        device_(device),
        name_(graph_.outputs().empty() ? "nothing" : graph_.outputs().front().name) {
    graph_.verify();
    stablehlo::module_text(graph_, name_);  // says what has no form in StableHLO
  }

  const Plan& plan() const override { return plan_; }
  const Graph& graph() const { return graph_; }
  int device() const { return device_; }

  void run(std::span<const View> inputs, std::span<const View> outputs) override {
    const BoundViews bound = bind(inputs, outputs);
    const std::scoped_lock lock(memory_.mutex());
    std::shared_ptr<Program>& program = programs_[bound.binding];
    if (!program) {
      BoundModule module(graph_, bound.binding, bound.operands.size());
      program = memory_.programs().get(module.text(name_), cat("the program of ", name_));
    }
    std::vector<SharedArray> arguments = read_only(bound);
    std::size_t results = 0;
    for (std::size_t i = 0; i < bound.buffers.size(); ++i) {
      const Binding::BoundBuffer& size = bound.binding.sizes[i];
      if (size.is_written) ++results;
      if (size.is_written && size.is_read)
        arguments[place_of(bound, i)] = memory_.take(*bound.buffers[i], device_);
    }
    const std::vector<SharedArray> made =
        memory_.plugin().run(*program, device_, arguments, results, cat("the program of ", name_));
    std::size_t next = 0;
    for (std::size_t i = 0; i < bound.buffers.size(); ++i)
      if (bound.binding.sizes[i].is_written)
        memory_.replace(*bound.buffers[i], device_, made[next++]);
  }

  std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                             std::span<const View>) override {
    const BoundViews bound = bind(inputs, {});
    std::vector<std::string> names;
    BoundModule module(graph_, bound.binding, bound.operands.size());
    const std::string text = module.finite_text(names);
    if (names.empty()) return std::nullopt;
    SharedArray flags;
    {
      const std::scoped_lock lock(memory_.mutex());
      const auto program = memory_.programs().get(text, "the search for what is not finite");
      flags = memory_.plugin().run(*program, device_, read_only(bound), 1,
                                   "the search for what is not finite")[0];
    }
    std::vector<std::uint32_t> finite(names.size());
    memory_.plugin().download(*flags, finite.data(), std::ssize(finite) * 4);
    const auto found = std::ranges::find(finite, 0U);
    if (found == finite.end()) return std::nullopt;
    return names[static_cast<std::size_t>(found - finite.begin())];
  }

 private:
  // The place of a buffer among the arguments.
  static std::size_t place_of(const BoundViews& bound, std::size_t buffer) {
    std::size_t place = 0;
    for (std::size_t i = 0; i < buffer; ++i) place += bound.binding.sizes[i].is_read ? 1 : 0;
    return place;
  }

  // The arguments; null for those that are written, which the program takes.
  std::vector<SharedArray> read_only(const BoundViews& bound) {
    std::vector<SharedArray> arguments;
    for (std::size_t i = 0; i < bound.buffers.size(); ++i) {
      const Binding::BoundBuffer& size = bound.binding.sizes[i];
      if (!size.is_read) continue;
      arguments.push_back(size.is_written ? nullptr : memory_.array(*bound.buffers[i], device_));
    }
    if (!bound.operands.empty()) arguments.push_back(memory_.integers(bound.operands, device_));
    return arguments;
  }

  Memory& memory_;
  Graph graph_;
  Plan plan_;
  int device_;
  std::string name_;
  std::map<Binding, std::shared_ptr<Program>> programs_;
};

// One replica does not occupy the cores of XLA's CPU; any other device, whose memory is scarcer, it
// does. PODIUM_PJRT_REPLICAS says otherwise.
ReplicaOrder replica_order(const std::string& platform) {
  const char* const named = std::getenv("PODIUM_PJRT_REPLICAS");
  const std::string order = named == nullptr ? "" : named;
  if (order == "in-turn") return ReplicaOrder::kInTurn;
  if (order == "side-by-side") return ReplicaOrder::kSideBySide;
  PODIUM_REQUIRE(order.empty(), ExitCode::kUsage, "PODIUM_PJRT_REPLICAS=", order,
                 ": write in-turn or side-by-side");
  return platform == "cpu" ? ReplicaOrder::kSideBySide : ReplicaOrder::kInTurn;
}

class PjrtDevice : public Device {
 public:
  // Without a plugin, it runs nothing.
  PjrtDevice(const DeviceOptions& options, std::shared_ptr<Plugin> plugin, int devices)
      : Device(options),
        plugin_(std::move(plugin)),
        devices_(devices),
        facts_(plugin_ ? plugin_->facts() : PluginFacts{}),
        order_(replica_order(facts_.platform)),
        memory_(plugin_.get()) {}

  std::string name() const override { return "pjrt"; }
  std::string description() const override {
    if (!plugin_) return cat(devices_, " devices that are not there");
    return cat(facts_.platform, ", ", facts_.devices.size(), " x ", facts_.devices[0].kind,
               ", PJRT API ", facts_.api_major, ".", facts_.api_minor);
  }
  Traits traits() const override {
    // An element may be so far from the contract's: conformance_test.cc compares every operation.
    Traits traits = {.exact_fp32 = false,
                     .tolerance = 1e-5f,
                     .winograd_tolerance = 1e-4f,
                     .step_workers = devices_,
                     .complete_steps = true,
                     .replicas_together = order_ == ReplicaOrder::kSideBySide,
                     .memory_bytes = plugin_ ? facts_.devices[0].memory_bytes : 0,
                     .compiler_checks_memory = true};
    traits.devices = devices_;
    return traits;
  }
  Bf16Support bf16() override { return {.orders = {}}; }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    return std::make_unique<WordBuffer>(bytes);
  }
  void upload(View to, const void* from) override {
    const std::scoped_lock lock(memory_.mutex());
    memory_.upload(to, from);
  }
  void download(void* to, View from) override { memory_.download(to, from); }
  void copy(View to, View from) override {
    const std::scoped_lock lock(memory_.mutex());
    memory_.copy(to, from);
  }
  void accumulate(View sum, View addend, int /*worker*/) override {
    const std::scoped_lock lock(memory_.mutex());
    memory_.accumulate(sum, addend);
  }
  // Nothing that the host can see is ever half done.
  void synchronise() override {}

  Plan plan(const Graph& graph, const CompileOptions& options) override {
    return plan_of(without_dead_nodes(graph), options);
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) override {
    return std::make_unique<PjrtExecutable>(memory_, graph, options, options.worker % devices_);
  }
  std::unique_ptr<WholeStep> compile_step(const StepProgram& step) override {
    const auto own = [](const Executable& executable) -> const PjrtExecutable& {
      return static_cast<const PjrtExecutable&>(executable);
    };
    std::vector<int> devices;
    for (const StepProgram::Worker& worker : step.workers)
      devices.push_back(own(*worker.replicas.at(0).program).device());
    return compile_whole_step(
        memory_, devices, step,
        [=](const Executable& executable) -> const Graph& { return own(executable).graph(); },
        order_);
  }

 private:
  const std::shared_ptr<Plugin> plugin_;
  const int devices_;
  const PluginFacts facts_;
  const ReplicaOrder order_;
  Memory memory_;
};

}  // namespace
}  // namespace pjrt

std::unique_ptr<Device> make_pjrt_device(const DeviceOptions& options) {
  std::shared_ptr<pjrt::Plugin> plugin = pjrt::Plugin::from_environment(options.key_values);
  const int devices = plugin->devices();
  return std::make_unique<pjrt::PjrtDevice>(options, std::move(plugin), devices);
}

std::unique_ptr<Device> make_absent_pjrt_device(const DeviceOptions& options, int devices) {
  return std::make_unique<pjrt::PjrtDevice>(options, nullptr, devices);
}

}  // namespace podium
