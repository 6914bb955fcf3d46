// From a graph to a list of launches. Each operation has one function here (lower_*.cc) that asks
// for its inputs in the layout its kernel reads, defines its outputs, and emits steps; layouts in
// between are converted as needed.
//
// Two layouts. Plain: row-major, as in a graph. Batch last: a batch value [N, ...] with the images
// innermost, element (n, f) at f * N + n, so that neighbouring threads take neighbouring images and
// whether a term counts is the same for all of them. Batch inputs of a program come plain and are
// turned at their first use. A value of one feature is the same in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/planes.h"
#include "backend/cuda/launch.h"
#include "graph/op_def.h"

namespace podium::PODIUM_CUDA_SPACE {

using Slot = int;  // a piece of memory of the program, of each replica

// Where each slot lies, during a run.
class Memory {
 public:
  explicit Memory(std::size_t slots) : places_(slots) {}
  Floats f32(Slot slot) const { return as<float>(slot); }
  Each<std::int32_t> i32(Slot slot) const { return as<std::int32_t>(slot); }
  Each<std::uint16_t> u16(Slot slot) const { return as<std::uint16_t>(slot); }
  Each<std::uint32_t> u32(Slot slot) const { return as<std::uint32_t>(slot); }
  Each<std::uint64_t> u64(Slot slot) const { return as<std::uint64_t>(slot); }
  std::byte* first(Slot slot) const { return places_[static_cast<std::size_t>(slot)].first; }
  std::int64_t stride(Slot slot) const { return places_[static_cast<std::size_t>(slot)].stride; }
  // `stride` in bytes.
  void set(Slot slot, std::byte* first, std::int64_t stride) {
    places_[static_cast<std::size_t>(slot)] = {first, stride};
  }

 private:
  template <typename T>
  Each<T> as(Slot slot) const {
    return {reinterpret_cast<T*>(first(slot)), stride(slot) / static_cast<std::int64_t>(sizeof(T))};
  }
  std::vector<Each<std::byte>> places_;
};

// How a step that computes a small tensor takes part in one launch for many of them.
using JoinedPart = std::variant<std::monostate, std::function<SgdPart(const Memory&)>,
                                std::function<RunningPart(const Memory&)>>;

// One or more launches that belong together. `run` makes them.
struct Step {
  std::string name;
  std::vector<Slot> reads, writes;  // temporaries are among the writes
  std::function<void(const Launch&, const Memory&)> run;
  // Instead of `run`, for an operation without kernel: what the host computes from copies of
  // `reads` into copies of `writes`.
  std::function<void(const std::vector<const void*>&, const std::vector<void*>&)> on_host = {};
  Cost cost = {};
  JoinedPart part = {};
  int branch = 0;  // steps of two branches depend on nothing of each other (branches.h)
};

struct SlotInfo {
  enum class Kind : std::uint8_t { kArena, kInput, kOutput, kConstant } kind = Kind::kArena;
  std::int64_t bytes = 0;
  int external = -1;  // number of the program's input or output, or of the constant
  DType dtype = DType::kF32;
  bool scratch = false;  // a temporary, which may be unwritten in part
};

struct Program {
  std::vector<Step> steps;
  std::vector<SlotInfo> slots;
  std::vector<std::vector<std::byte>> constants;
};

class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph) {}
  Program run();

  // --- for the functions of operations ---
  const Graph& graph() const { return graph_; }
  const Shape& shape(Value value) const { return graph_.shape(value); }

  // The slot of a value in the layout asked for; emits a conversion if it is held in the other.
  Slot batch_last(Value value);
  Slot plain(Value value);
  // The value batch last, rounded to BF16 (kernels/bf16.h); emits the rounding at its first use.
  Slot rounded(Value value);
  // Whether the value is held batch last.
  bool is_batch_last(Value value) const { return batch_last_.contains(value); }
  // New memory for a value that the current operation computes.
  Slot define_batch_last(Value value);
  Slot define_plain(Value value);
  // The value is the same memory as `other` holds, in the layout that it has.
  void define_alias(Value value, Value other);
  // A value whose elements are all one constant; memory only if somebody asks for it.
  void define_constant(Value value, float constant) { constants_[value] = constant; }
  const float* constant(Value value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? nullptr : &found->second;
  }
  // Memory that lives as long as steps use it, of each replica.
  Slot temporary(std::int64_t floats);
  // Memory that holds these bytes always, the same for all replicas.
  Slot data(std::vector<std::byte> bytes);

  // The step's name and cost are those of the current node unless given.
  void emit(Step step);

 private:
  Slot add_slot(SlotInfo info);
  void materialise(Value value);
  void turn(Value value, const std::string& name, Slot from, Slot to, bool to_batch_last);

  const Graph& graph_;
  Program program_;
  std::map<Value, Slot> batch_last_, plain_, rounded_;
  std::map<Value, float> constants_;
  std::map<Value, int> output_index_;  // of a program output that nobody has written yet
  std::string label_;
  Cost cost_;
};

// Makes one step of those of a kind that have a part, where the steps between them allow it.
std::vector<Step> join_steps(std::vector<Step> steps);

using LowerFunction = void (*)(Lowering& lowering, const Node& node, std::int32_t index);
// By OpKind; one entry for each operation, expanded from ops/op_list.h in lowering.cc. Operations
// that a program defines for itself share one.
LowerFunction lower_function(OpKind kind);

}  // namespace podium::PODIUM_CUDA_SPACE
