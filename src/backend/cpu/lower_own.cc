// An operation that a program defines for itself: its reference, on plain memory, as one part. What
// a call needs is made here, so that a step allocates no more than the reference does.
#include <memory>

#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

class Call {
 public:
  Call(Lowering& l, const Node& node, std::int32_t index)
      : op_(node.op),
        attributes_(node.attributes),
        label_(cat("[", node.op->name, " \"", node.name, "\"]")) {
    for (const Value value : node.inputs) inputs_.add(l.plain(value), l.graph().type(value));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const Value value{index, static_cast<std::int32_t>(o)};
      outputs_.add(l.define_plain(value), l.graph().type(value));
    }
    for (Tensor& tensor : inputs_.views) arguments_.push_back(&tensor);
    for (Tensor& tensor : outputs_.views) results_.push_back(&tensor);
  }

  const std::vector<Slot>& reads() const { return inputs_.slots; }
  const std::vector<Slot>& writes() const { return outputs_.slots; }

  // Not from two threads at once: one executable's part.
  void run(const Memory& memory) {
    inputs_.point_at(memory);
    outputs_.point_at(memory);
    op_->reference(attributes_, arguments_, results_);
    for (std::size_t o = 0; o < results_.size(); ++o)
      PODIUM_REQUIRE(results_[o]->data() == memory.any(outputs_.slots[o]), ExitCode::kUsage, label_,
                     " its reference replaced output ", o,
                     "; it must write the elements of the "
                     "tensor that it is given");
  }

 private:
  struct Operands {
    std::vector<Slot> slots;
    std::vector<Tensor> views;

    void add(Slot slot, const TensorType& type) {
      slots.push_back(slot);
      views.push_back(Tensor::view(type, nullptr));
    }
    void point_at(const Memory& memory) {
      for (std::size_t i = 0; i < slots.size(); ++i) views[i].point_at(memory.any(slots[i]));
    }
  };

  const OpDef* op_;
  Attributes attributes_;
  std::string label_;
  Operands inputs_, outputs_;
  std::vector<const Tensor*> arguments_;
  std::vector<Tensor*> results_;
};

}  // namespace

// Its reference copies whole rows, and where they stay nothing but one.
void lower_cache_row(Lowering& l, const Node& node, std::int32_t index) {
  lower_own_operation(l, node, index);
}

void lower_own_operation(Lowering& l, const Node& node, std::int32_t index) {
  const auto call = std::make_shared<Call>(l, node, index);
  l.emit({.reads = call->reads(),
          .writes = call->writes(),
          .run = [call](const Memory& m, int, int) { call->run(m); }});
}

}  // namespace podium::cpu
