// From a graph to a list of kernel calls. Each operation has one function here (lower_*.cc) that
// asks for its inputs in the layout its kernel reads, defines its outputs, and emits steps; the
// layouts between are converted as needed.
//
// Two layouts. Plain: row-major, as in a graph. Lanes: a batch value [N, ...] as blocks of 16
// images (kernels/layout.h). Batch inputs of a program come plain and are packed at their first
// use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/device.h"
#include "compile/memory_plan.h"
#include "graph/op_def.h"

namespace podium::cpu {

using Slot = int;  // a piece of memory of the program

// Where each slot lies, during a run.
class Memory {
 public:
  explicit Memory(std::size_t slots) : pointers_(slots, nullptr) {}
  float* f32(Slot slot) const {
    return static_cast<float*>(pointers_[static_cast<std::size_t>(slot)]);
  }
  std::int32_t* i32(Slot slot) const {
    return static_cast<std::int32_t*>(pointers_[static_cast<std::size_t>(slot)]);
  }
  std::uint32_t* u32(Slot slot) const {
    return static_cast<std::uint32_t*>(pointers_[static_cast<std::size_t>(slot)]);
  }
  void* any(Slot slot) const { return pointers_[static_cast<std::size_t>(slot)]; }
  void set(Slot slot, void* pointer) { pointers_[static_cast<std::size_t>(slot)] = pointer; }

  // Memory of a thread's own, for the part that it runs: as much as any step asked for
  // (Lowering::need_scratch), the same throughout, so that it stays in the caches.
  float* scratch(int thread) const { return scratch_[static_cast<std::size_t>(thread)]; }
  void set_scratch(int thread, float* pointer) {
    const auto index = static_cast<std::size_t>(thread);
    if (index >= scratch_.size()) scratch_.resize(index + 1);
    scratch_[index] = pointer;
  }

 private:
  std::vector<void*> pointers_;
  std::vector<float*> scratch_;  // by thread
};

// One kernel call. `run` is called for each part, on any thread in any order.
struct Step {
  std::string name;
  int parts = 1;
  std::vector<Slot> reads, writes;  // temporaries are among the writes
  // Operands whose memory the kernel allows the first of `writes` to be; the first of them that is
  // not read later gives it up.
  std::vector<Slot> in_place = {};
  // Whether what it writes may be the memory of program inputs: of a donated output, or what an
  // optimizer's update makes.
  bool updates = false;
  std::function<void(const Memory&, int part, int thread)> run;
  Cost cost = {};
};

struct SlotInfo {
  enum class Kind { kArena, kInput, kOutput } kind = Kind::kArena;
  std::int64_t bytes = 0;
  int external = -1;  // index of the program input or output
  DType dtype = DType::kF32;
  std::int64_t images = 0;  // of a value in lanes; 0: plain
  std::int64_t features = 0;
  bool scratch = false;  // a temporary, which may be unwritten in part
};

struct Program {
  std::vector<Step> steps;
  std::vector<SlotInfo> slots;
  std::int64_t scratch_floats = 0;  // that a thread needs at most, whole cache lines
};

class Lowering {
 public:
  // `shared_outputs`: other cores read the outputs of updates next, so these are written in another
  // way, with the same bits.
  Lowering(const Graph& graph, bool shared_outputs)
      : graph_(graph), shared_outputs_(shared_outputs) {}
  Program run();

  // --- for the functions of operations ---
  const Graph& graph() const { return graph_; }
  const Shape& shape(Value value) const { return graph_.shape(value); }
  bool shared_outputs() const { return shared_outputs_; }

  // The slot of a value in the layout asked for; emits a conversion where it is held in the other.
  Slot lanes(Value value);
  Slot plain(Value value);
  bool in_lanes(Value value) const { return lanes_.contains(value); }
  // New memory for a value that the current operation computes.
  Slot define_lanes(Value value);
  Slot define_plain(Value value);
  // The value is the same memory as `other` holds, in the layout that it has.
  void define_alias(Value value, Value other);
  // A value whose elements are all one constant; memory only if somebody asks for it.
  void define_constant(Value value, float constant) { constants_[value] = constant; }
  const float* constant(Value value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? nullptr : &found->second;
  }
  // Memory that lives as long as steps use it.
  Slot temporary(std::int64_t floats);
  // Each thread will have so much of its own while it runs a part: Memory::scratch.
  void need_scratch(std::int64_t floats);

  // The step's name and cost are those of the current node unless given.
  void emit(Step step);

 private:
  Slot add_slot(SlotInfo info);
  void materialise(Value value);

  const Graph& graph_;
  bool shared_outputs_;
  Program program_;
  std::map<Value, Slot> lanes_, plain_;
  std::map<Value, float> constants_;
  std::map<Value, int> output_index_;  // of a program output that nobody has written yet
  std::string label_;
  Cost cost_;
};

using LowerFunction = void (*)(Lowering& lowering, const Node& node, std::int32_t index);
// By OpKind; one entry an operation, expanded from ops/op_list.h in lowering.cc. Operations that a
// program defines for itself share one.
LowerFunction lower_function(OpKind kind);

}  // namespace podium::cpu
