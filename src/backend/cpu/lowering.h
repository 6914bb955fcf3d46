// From a graph to a list of kernel calls (backend/lowering). The second layout is lanes: a batch
// value [N, ...] as blocks of 16 images (kernels/layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/layout.h"
#include "backend/lowering/lowering.h"

namespace podium::cpu {

using lowering::Slot;
using lowering::SlotInfo;

// The slot of a result, and whether it is rounded to BF16.
struct ResultSlot {
  Slot slot = -1;
  bool rounded = false;
  std::vector<Slot> slots() const { return {slot}; }
};

// Where each slot lies, during a run.
class Memory {
 public:
  explicit Memory(std::size_t slots) : pointers_(slots, nullptr) {}
  float* f32(Slot slot) const {
    return static_cast<float*>(pointers_[static_cast<std::size_t>(slot)]);
  }
  float* source(Slot slot) const { return f32(slot); }
  FlatResult result(const ResultSlot& y) const { return {f32(y.slot), y.rounded}; }
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

using Program = lowering::Program<Step>;

class Lowering : public lowering::Lowering<Step> {
 public:
  // `shared_outputs`: other cores read the outputs of updates next, so these are written in another
  // way, with the same bits.
  Lowering(const Graph& graph, bool shared_outputs)
      : lowering::Lowering<Step>(graph), shared_outputs_(shared_outputs) {}
  Program run();

  // --- for the functions of operations ---
  bool shared_outputs() const { return shared_outputs_; }
  Slot lanes(Value value) { return batched(value); }
  bool in_lanes(Value value) const { return is_batched(value); }
  Slot define_lanes(Value value) { return define_batched(value); }
  Slot source(Value value, bool in_lanes) { return in_layout(value, in_lanes); }
  // New memory for a value that the current operation computes, or for what it is rounded to.
  ResultSlot define_result(Value value, bool in_lanes = true) {
    const Value result = rounded_result(value);
    return {define_in_layout(result, in_lanes), result != value};
  }
  // Each thread will have so much of its own while it runs a part: Memory::scratch.
  void need_scratch(std::int64_t floats);
  // kernel(memory, part) for `count` floats.
  template <typename Kernel>
  void emit_flat(std::int64_t count, const std::vector<Slot>& reads,
                 const std::vector<Slot>& writes, const Kernel& kernel) {
    emit({.parts = flat_parts(count),
          .reads = reads,
          .writes = writes,
          .run = [=](const Memory& m, int part, int) { kernel(m, part); }});
  }
  // The floats of a value's slot.
  std::int64_t floats_of(const Shape& shape, bool in_lanes) const {
    return in_lanes ? padded(shape[0]) * lowering::features_of(shape) : shape.elements();
  }

 private:
  lowering::SlotInfo batched_slot(const TensorType& type) const override;
  bool is_same_in_both(const Shape&) const override { return false; }
  void convert(Value value, const std::string& name, Slot from, Slot to, bool to_batched) override;
  void emit_fill(std::int64_t count, float filler, Slot to) override;
  void emit_copy(std::int64_t bytes, Slot from, Slot to) override;

  bool shared_outputs_;
};

using LowerFunction = void (*)(Lowering& lowering, const Node& node, std::int32_t index);
// By OpKind; one entry an operation, expanded from ops/op_list.h in lowering.cc. Operations that a
// program defines for itself share one.
LowerFunction lower_function(OpKind kind);

}  // namespace podium::cpu
