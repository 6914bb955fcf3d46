#include "backend/pjrt/whole_step.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/tree.h"
#include "compile/stablehlo/stablehlo.h"

namespace podium::pjrt {
namespace {

using stablehlo::Builder;
using stablehlo::HloValue;
using GraphOf = std::function<const Graph&(const Executable&)>;

constexpr const char* kName = "the program of a whole step";

// A vector of the plugin that the step reads or writes.
struct Held {
  WordBuffer* buffer = nullptr;
  bool is_written = false;
  HloValue value{};  // as it is by now
};

// What a replica wrote to the step's `sum`: FP32 vectors, by their first words in it.
struct Part {
  std::int64_t first = 0;
  HloValue value;
};

// A module whose arguments are the vectors, and whose results are those that are written, anew.
//
// No replica's operations may melt into those of another program of the step, which would round in
// other places: the additions and the updates stand in a branch of their own.
class StepModule {
 public:
  StepModule(const StepProgram& step, const GraphOf& graph_of) : step_(step), graph_of_(graph_of) {
    for (const Call& call : step.replicas) hold(call);
    for (const Call& call : step.updates) hold(call);
    hold(step.losses, true);
  }

  std::string text() {
    std::vector<std::string> arguments;
    std::size_t results = 0;
    for (Held& held : held_) {
      held.value = b_.argument(arguments.size(), {DType::kU32, Shape{held.buffer->words()}});
      const std::string donated =
          held.is_written ? cat(" {tf.aliasing_output = ", results++, " : i32}") : "";
      arguments.push_back(cat(held.value.name, ": ", held.value.type(), donated));
    }
    std::vector<std::vector<Part>> parts;
    std::vector<HloValue> losses;
    for (const Call& call : step_.replicas) {
      parts.push_back(run_replica(call));
      losses.push_back(
          std::ranges::find(parts.back(), word(step_.loss) - word(step_.sum), &Part::first)->value);
    }
    const HloValue all = b_.concatenate(losses, 0);
    write(step_.losses, b_.bitcast(all, "ui32"));
    update(finite(all), parts);
    std::vector<HloValue> written;
    for (const Held& held : held_)
      if (held.is_written) written.push_back(held.value);
    return module_around("step", arguments, b_, written);
  }

  const std::vector<Held>& held() const { return held_; }

 private:
  static std::int64_t word(const View& view) { return view.offset / 4; }
  bool is_sum(const View& view) const { return view.buffer == step_.sum.buffer; }

  void hold(const Call& call) {
    for (const View& view : call.inputs) hold(view, false);
    for (const View& view : call.outputs) hold(view, true);
  }
  void hold(const View& view, bool is_written) {
    if (is_sum(view)) return;
    auto known = std::ranges::find(held_, &words_of(view), &Held::buffer);
    if (known == held_.end()) known = held_.insert(known, Held{.buffer = &words_of(view)});
    known->is_written = known->is_written || is_written;
  }
  HloValue& value_of(const View& view) {
    return std::ranges::find(held_, &words_of(view), &Held::buffer)->value;
  }

  // What the vector holds there by now; of the sum: `sum`.
  HloValue read(const View& view, const TensorType& type, const HloValue& sum) {
    HloValue vector = is_sum(view) ? sum : value_of(view);
    const std::int64_t first = word(view) - (is_sum(view) ? word(step_.sum) : 0),
                       count = type.shape.elements();
    if (vector.shape[0] != count) vector = b_.slice(vector, 0, first, count);
    return b_.reshape(b_.bitcast(vector, stablehlo::element_of(type.dtype)), type.shape);
  }
  void write(const View& view, const HloValue& words) {
    HloValue& vector = value_of(view);
    if (vector.shape == words.shape) {
      vector = words;
    } else {
      const HloValue first = b_.integer("i32", static_cast<std::uint64_t>(word(view)));
      vector = b_.dynamic_update_slice(vector, words, first);
    }
  }
  std::vector<HloValue> run(const Call& call, const HloValue& sum) {
    const Graph& graph = graph_of_(*call.program);
    std::vector<HloValue> inputs;
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      inputs.push_back(read(call.inputs[i], graph.type(graph.inputs()[i].value), sum));
    std::vector<HloValue> made = stablehlo::emit(b_, graph, inputs);
    for (HloValue& result : made) result = b_.reshape(result, Shape{result.shape.elements()});
    return made;
  }

  // In the order of their places.
  std::vector<Part> run_replica(const Call& call) {
    const std::vector<HloValue> made = run(call, {});
    std::vector<Part> parts;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const View& view = call.outputs[i];
      if (is_sum(view)) {
        PODIUM_CHECK(made[i].element == "f32");
        parts.push_back({word(view) - word(step_.sum), made[i]});
      } else {
        write(view, b_.bitcast(made[i], "ui32"));
      }
    }
    std::ranges::sort(parts, {}, &Part::first);
    return parts;
  }

  HloValue finite(const HloValue& losses) {
    const HloValue flags = b_.make("i1", losses.shape,
                                   cat("stablehlo.is_finite ", losses.name, " : (", losses.type(),
                                       ") -> ", stablehlo::type_text("i1", losses.shape)));
    const std::int64_t axes[] = {0};
    return b_.reduce(flags, "and", b_.integer("i1", 1), axes);
  }

  HloValue sum_of(const std::vector<std::vector<Part>>& parts, std::size_t part, std::int64_t begin,
                  std::int64_t end) {
    if (end - begin == 1) return parts[static_cast<std::size_t>(begin)][part].value;
    const std::int64_t middle = tree_middle(begin, end);
    const HloValue left = sum_of(parts, part, begin, middle);
    return b_.add(left, sum_of(parts, part, middle, end));
  }
  // Of all replicas: one vector, zeros between the parts.
  HloValue sum(const std::vector<std::vector<Part>>& parts) {
    std::vector<HloValue> pieces;
    std::int64_t end = 0;
    const auto fill_to = [&](std::int64_t first) {
      if (first > end) pieces.push_back(b_.constant(0, Shape{first - end}));
    };
    for (std::size_t i = 0; i < parts[0].size(); ++i) {
      fill_to(parts[0][i].first);
      pieces.push_back(sum_of(parts, i, 0, std::ssize(parts)));
      end = parts[0][i].first + pieces.back().shape[0];
    }
    fill_to((step_.sum.bytes + 3) / 4);
    return b_.concatenate(pieces, 0);
  }

  void update(const HloValue& condition, const std::vector<std::vector<Part>>& parts) {
    std::vector<Held*> targets;
    for (const Call& call : step_.updates)
      for (const View& view : call.outputs)
        targets.push_back(&*std::ranges::find(held_, &words_of(view), &Held::buffer));
    std::ranges::sort(targets);
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    if (targets.empty()) return;
    std::vector<HloValue> old;
    for (const Held* held : targets) old.push_back(held->value);
    const auto updated = [&] {
      const HloValue total = sum(parts);
      for (const Call& call : step_.updates) {
        const std::vector<HloValue> made = run(call, total);
        for (std::size_t i = 0; i < made.size(); ++i)
          write(call.outputs[i], b_.bitcast(made[i], "ui32"));
      }
      std::vector<HloValue> values;
      for (const Held* held : targets) values.push_back(held->value);
      return values;
    };
    const std::vector<HloValue> values = b_.conditional(condition, updated, old);
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i]->value = values[i];
  }

  Builder b_{"HIGHEST"};
  const StepProgram& step_;
  const GraphOf& graph_of_;
  std::vector<Held> held_;
};

class PjrtStep : public WholeStep {
 public:
  PjrtStep(Memory& memory, int device, StepProgram step, GraphOf graph_of)
      : memory_(memory), device_(device), step_(std::move(step)), graph_of_(std::move(graph_of)) {}

  void run() override {
    const std::scoped_lock lock(memory_.mutex());
    if (!program_) compile();
    std::vector<SharedArray> arguments;
    std::size_t results = 0;
    for (const Held& held : held_) {
      results += held.is_written ? 1 : 0;
      arguments.push_back(held.is_written ? memory_.take(*held.buffer, device_)
                                          : memory_.array(*held.buffer, device_));
    }
    const std::vector<SharedArray> made =
        memory_.plugin().run(*program_, device_, arguments, results, kName);
    std::size_t next = 0;
    for (const Held& held : held_)
      if (held.is_written) memory_.replace(*held.buffer, device_, made[next++]);
  }

 private:
  void compile() {
    StepModule module(step_, graph_of_);
    program_ = memory_.programs().get(module.text(), kName);
    held_ = module.held();
  }

  Memory& memory_;
  const int device_;
  const StepProgram step_;
  const GraphOf graph_of_;
  std::vector<Held> held_;
  std::shared_ptr<Program> program_;
};

}  // namespace

std::unique_ptr<WholeStep> compile_whole_step(Memory& memory, int device, const StepProgram& step,
                                              const GraphOf& graph_of) {
  return std::make_unique<PjrtStep>(memory, device, step, graph_of);
}

}  // namespace podium::pjrt
