#include "backend/host_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace podium {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(AlignedBytes memory)
      : Buffer(static_cast<std::int64_t>(memory.size()), memory.data()),
        memory_(std::move(memory)) {}

 private:
  AlignedBytes memory_;
};

std::vector<NamedType> types_of(const Graph& graph, std::span<const NamedValue> values) {
  std::vector<NamedType> types;
  for (const NamedValue& value : values) types.push_back({value.name, graph.type(value.value)});
  return types;
}

int number_of(const std::vector<NamedType>& types, const std::string& name, const char* where) {
  const auto found = std::ranges::find(types, name, &NamedType::name);
  PODIUM_CHECK(found != types.end(), where, " names \"", name, "\", which the graph has not");
  return static_cast<int>(found - types.begin());
}

}  // namespace

std::unique_ptr<Buffer> HostDevice::allocate(std::int64_t bytes) {
  return std::make_unique<HostBuffer>(AlignedBytes(static_cast<std::size_t>(bytes)));
}

std::unique_ptr<Buffer> HostDevice::adopt(void* memory, std::int64_t bytes) {
  return std::make_unique<HostBuffer>(
      AlignedBytes::borrowed(memory, static_cast<std::size_t>(bytes)));
}

void HostDevice::upload(View to, const void* from) {
  std::memcpy(to.host(), from, static_cast<std::size_t>(to.bytes));
}

void HostDevice::download(void* to, View from) {
  std::memcpy(to, from.host(), static_cast<std::size_t>(from.bytes));
}

void HostDevice::copy(View to, View from) {
  std::memcpy(to.host(), from.host(), static_cast<std::size_t>(to.bytes));
}

Plan interface_of(const Graph& graph, const CompileOptions& options) {
  Plan plan;
  plan.inputs = types_of(graph, graph.inputs());
  plan.outputs = types_of(graph, graph.outputs());
  for (const Donation& donation : options.donations) {
    const int output = number_of(plan.outputs, donation.output, "a donation"),
              input = number_of(plan.inputs, donation.input, "a donation");
    for (const auto& [other_output, other_input] : plan.donated)
      PODIUM_CHECK(other_output != output && other_input != input, donation.input, " to ",
                   donation.output, ": one of them is donated twice");
    PODIUM_CHECK(plan.outputs[static_cast<std::size_t>(output)].type ==
                     plan.inputs[static_cast<std::size_t>(input)].type,
                 donation.input, " and ", donation.output, " differ in type");
    plan.donated.emplace_back(output, input);
  }
  for (const std::vector<std::string>& names : options.milestones) {
    plan.milestones.emplace_back();
    for (const std::string& name : names)
      plan.milestones.back().push_back(number_of(plan.outputs, name, "a milestone"));
  }
  return plan;
}

}  // namespace podium
