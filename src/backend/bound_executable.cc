#include "backend/bound_executable.h"

#include <algorithm>

#include "base/error.h"
#include "base/words.h"

namespace podium {
namespace {

std::vector<std::string> names_of(std::span<const NamedValue> values) {
  std::vector<std::string> names;
  for (const NamedValue& value : values) names.push_back(value.name);
  return names;
}

std::size_t slot_of(const std::vector<std::string>& names, const std::string& name,
                    const char* kind) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw InternalError(
        __FILE__, __LINE__,
        cat("the graph has no ", kind, " \"", name, "\"; it has ", join_words(names)));
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

BoundExecutable::BoundExecutable(Backend& backend, const Graph& graph,
                                 const CompileOptions& options)
    : executable_(backend.compile(graph, options)),
      input_names_(names_of(graph.inputs())),
      output_names_(names_of(graph.outputs())),
      inputs_(input_names_.size()),
      outputs_(output_names_.size()) {}

std::size_t BoundExecutable::input_slot(const std::string& name) const {
  return slot_of(input_names_, name, "input");
}

std::size_t BoundExecutable::output_slot(const std::string& name) const {
  return slot_of(output_names_, name, "output");
}

void BoundExecutable::require_memory() {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    PODIUM_CHECK(inputs_[i] != nullptr, "input \"", input_names_[i], "\" is not bound");
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    PODIUM_CHECK(outputs_[i] != nullptr, "output \"", output_names_[i], "\" is not bound");
  checked_ = true;
}

}  // namespace podium
