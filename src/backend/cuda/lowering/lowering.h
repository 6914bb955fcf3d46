// From a graph to a list of launches (backend/lowering). The second layout is batch last: a batch
// value [N, ...] with the images innermost, element (n, f) at f * N + n, so that neighbouring
// threads take neighbouring images and whether a term counts is the same for all of them. A value
// of one feature or of one image is the same in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/planes.h"
#include "backend/cuda/launch.h"
#include "backend/lowering/lowering.h"

namespace podium::PODIUM_CUDA_SPACE {

using lowering::Slot;  // a piece of memory of the program, of each replica
using lowering::SlotInfo;

// The slots of a Result (launch.h).
struct ResultSlots {
  static constexpr Slot kNone = -1;  // nobody reads it so
  Slot floats = kNone, halves = kNone;
  bool rounded = false;
  std::vector<Slot> slots(std::vector<Slot> others = {}) const {
    for (const Slot slot : {floats, halves})
      if (slot != kNone) others.push_back(slot);
    return others;
  }
};

// The slot of a Source.
struct SourceSlot {
  Slot slot = -1;
  bool halves = false;
};
inline Slot slot_of(const SourceSlot& source) { return source.slot; }

// Where each slot lies, during a run.
class Memory {
 public:
  explicit Memory(std::size_t slots) : places_(slots) {}
  Floats f32(Slot slot) const { return as<float>(slot); }
  Result result(const ResultSlots& y) const {
    return {y.floats == ResultSlots::kNone ? Floats{} : f32(y.floats),
            y.halves == ResultSlots::kNone ? Halves{} : u16(y.halves), y.rounded};
  }
  Source source(const SourceSlot& x) const {
    return x.halves ? Source(ConstHalves(u16(x.slot))) : Source(f32(x.slot));
  }
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

using Program = lowering::Program<Step>;

class Lowering : public lowering::Lowering<Step> {
 public:
  using lowering::Lowering<Step>::Lowering;
  Program run();

  // --- for the functions of operations ---
  Slot batch_last(Value value) { return batched(value); }
  bool is_batch_last(Value value) const { return is_batched(value); }
  // The value as a kernel reads it that takes floats as well as halves: halves if it is rounded and
  // they are there.
  SourceSlot source(Value value, bool batch_last = true);
  // The same for a kernel that rounds what it reads: halves if they are there.
  SourceSlot rounding_source(Value value, bool batch_last);
  Slot define_batch_last(Value value) { return define_batched(value); }
  // The value batch last, rounded to BF16 (kernels/bf16.h); emits the rounding at its first use,
  // unless the value was defined so.
  Slot rounded(Value value);
  // New memory for a value that the current operation computes, in the forms in which its readers
  // take it, batch last or plain; for what it is rounded to, if that is all that is read of it.
  ResultSlots define_result(Value value, bool batch_last = true);
  // kernel(memory, launch), for `count` floats.
  template <typename Kernel>
  void emit_flat(std::int64_t, const std::vector<Slot>& reads, const std::vector<Slot>& writes,
                 const Kernel& kernel) {
    emit({.reads = reads, .writes = writes, .run = [=](const Launch& launch, const Memory& m) {
            kernel(m, launch);
          }});
  }
  // The floats of a value's slot.
  std::int64_t floats_of(const Shape& shape, bool) const { return shape.elements(); }

 private:
  lowering::SlotInfo batched_slot(const TensorType& type) const override;
  bool is_same_in_both(const Shape& shape) const override;
  void convert(Value value, const std::string& name, Slot from, Slot to, bool to_batched) override;
  void emit_fill(std::int64_t count, float filler, Slot to) override;
  void emit_copy(std::int64_t bytes, Slot from, Slot to) override;
  bool is_in_another_form(Value value, bool batched) const override {
    return halves_of(value, batched) != nullptr;
  }
  void alias_another_form(Value value, Value other) override;
  void make_floats(Value value) override;

  // Whether somebody reads a value as floats, and whether somebody reads its halves: products of
  // BF16 operands, and, if it is rounded, all that take a Source.
  struct Readings {
    bool floats = false, rounded = false;
  };
  std::map<Value, Readings> readings_;
  // Halves: batch last, images filled up (kernels/bf16.h); or plain, of a matrix.
  std::map<Value, Slot> rounded_, plain_rounded_;
  const Slot* halves_of(Value value, bool batch_last) const {
    const auto& all = batch_last ? rounded_ : plain_rounded_;
    const auto found = all.find(value);
    return found == all.end() ? nullptr : &found->second;
  }
};

// Makes one step of those of a kind that have a part, where the steps between them allow it.
std::vector<Step> join_steps(std::vector<Step> steps);

using LowerFunction = void (*)(Lowering& lowering, const Node& node, std::int32_t index);
// By OpKind; one entry for each operation, expanded from ops/op_list.h in lowering.cc. Operations
// that a program defines for itself share one.
LowerFunction lower_function(OpKind kind);

}  // namespace podium::PODIUM_CUDA_SPACE
