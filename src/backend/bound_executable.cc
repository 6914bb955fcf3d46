#include "backend/bound_executable.h"

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/words.h"

namespace podium {
namespace {

std::size_t slot_of(const std::vector<NamedType>& types, const std::string& name,
                    const char* kind) {
  const auto found = std::ranges::find(types, name, &NamedType::name);
  if (found == types.end()) {
    std::vector<std::string> names;
    for (const NamedType& type : types) names.push_back(type.name);
    throw InternalError(
        __FILE__, __LINE__,
        cat("the graph has no ", kind, " \"", name, "\"; it has ", join_words(names)));
  }
  return static_cast<std::size_t>(found - types.begin());
}

void require_bound(const char* kind, const NamedType& named, const View& view) {
  PODIUM_CHECK(view, kind, " \"", named.name, "\" is not bound");
  PODIUM_CHECK(view.bytes == named.type.bytes(), kind, " \"", named.name, "\" is ",
               to_string(named.type), ", and is bound to ", view.bytes, " bytes");
  PODIUM_CHECK(view.offset >= 0 && view.offset + view.bytes <= view.buffer->bytes(), kind, " \"",
               named.name, "\" ends beyond its buffer");
}

// A piece of memory that a run uses; `name` for errors.
struct Use {
  const Buffer* buffer;
  std::int64_t begin, end;
  bool written;
  const std::string* name;
};

}  // namespace

BoundExecutable::BoundExecutable(Device& device, const Graph& graph, const CompileOptions& options)
    : executable_(device.compile(graph, options)),
      inputs_(executable_->plan().inputs.size()),
      outputs_(executable_->plan().outputs.size()),
      donated_to_(inputs_.size(), -1) {
  for (const auto& [output, input] : executable_->plan().donated)
    donated_to_[static_cast<std::size_t>(input)] = output;
}

std::size_t BoundExecutable::input_slot(const std::string& name) const {
  return slot_of(executable_->plan().inputs, name, "input");
}

std::size_t BoundExecutable::output_slot(const std::string& name) const {
  return slot_of(executable_->plan().outputs, name, "output");
}

void BoundExecutable::bind_input(const std::string& name, View memory) {
  const std::size_t slot = input_slot(name);
  require_bound("input", executable_->plan().inputs[slot], memory);
  set_input(slot, memory);
}

void BoundExecutable::bind_output(const std::string& name, View memory) {
  const std::size_t slot = output_slot(name);
  require_bound("output", executable_->plan().outputs[slot], memory);
  set_output(slot, memory);
}

void BoundExecutable::require_memory() {
  const Plan& plan = executable_->plan();
  std::vector<Use> uses;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    require_bound("input", plan.inputs[i], inputs_[i]);
    uses.push_back({inputs_[i].buffer, inputs_[i].offset, inputs_[i].offset + inputs_[i].bytes,
                    false, &plan.inputs[i].name});
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    require_bound("output", plan.outputs[i], outputs_[i]);
    uses.push_back({outputs_[i].buffer, outputs_[i].offset, outputs_[i].offset + outputs_[i].bytes,
                    true, &plan.outputs[i].name});
  }
  // A donated output stands for its input, which is not looked at.
  for (const auto& [output, input] : plan.donated) {
    PODIUM_CHECK(
        outputs_[static_cast<std::size_t>(output)] == inputs_[static_cast<std::size_t>(input)],
        "output \"", plan.outputs[static_cast<std::size_t>(output)].name,
        "\" must have the memory of its input \"",
        plan.inputs[static_cast<std::size_t>(input)].name, "\"");
    uses[static_cast<std::size_t>(input)].buffer = nullptr;
  }
  std::erase_if(uses, [](const Use& use) { return use.buffer == nullptr || use.begin == use.end; });
  std::ranges::sort(uses, {}, [](const Use& use) { return std::pair(use.buffer, use.begin); });
  // Inputs may overlap each other; the one that ends last and the output that does are enough.
  std::int64_t input_end = 0, output_end = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Use& use = uses[i];
    if (i == 0 || uses[i - 1].buffer != use.buffer) input_end = output_end = 0;
    PODIUM_CHECK(use.begin >= output_end && (!use.written || use.begin >= input_end), "\"",
                 *use.name, "\" overlaps other memory of the program, and is not donated");
    std::int64_t& end = use.written ? output_end : input_end;
    end = std::max(end, use.end);
  }
  checked_ = true;
}

}  // namespace podium
