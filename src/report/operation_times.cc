#include "report/operation_times.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "files/file_io.h"

namespace podium {
namespace {

constexpr const char* kFile = "operations.json";
constexpr std::uint64_t kMostFileBytes = 16 << 20;

}  // namespace

std::vector<KernelProfile> by_operation(const Trainer& trainer) {
  std::vector<KernelProfile> merged;
  for (std::int64_t worker = 0; worker < trainer.placement().workers; ++worker) {
    // Of this worker. An operation's kernels run equally often, and one carries its cost; several
    // operations may have one name.
    std::set<std::string> counted;
    for (const KernelProfile& kernel : trainer.profile(worker)) {
      auto same = std::ranges::find(merged, kernel.name, &KernelProfile::name);
      if (same == merged.end()) same = merged.insert(same, {.name = kernel.name});
      same->seconds += kernel.seconds;
      same->flops += kernel.flops;
      same->bytes += kernel.bytes;
      const bool first = counted.insert(kernel.name).second;
      if (first || kernel.flops > 0 || kernel.bytes > 0) same->calls += kernel.calls;
    }
  }
  return merged;
}

OperationTimes operation_times(const Trainer& trainer, const ProfiledSteps& steps) {
  OperationTimes times{.steps = steps,
                       .cores = trainer.placement().workers * trainer.placement().threads,
                       .operations = by_operation(trainer)};
  std::ranges::stable_sort(times.operations, std::ranges::greater(), &KernelProfile::seconds);
  return times;
}

std::string operations_text(const OperationTimes& times) {
  auto operations = nlohmann::ordered_json::array();
  for (const KernelProfile& one : times.operations)
    operations.push_back({{"op", one.name},
                          {"calls", one.calls},
                          {"seconds", one.seconds},
                          {"flops", one.flops},
                          {"bytes", one.bytes}});
  const nlohmann::ordered_json whole = {{"first_step", times.steps.first},
                                        {"steps", times.steps.count},
                                        {"seconds", times.steps.seconds},
                                        {"cores", times.cores},
                                        {"operations", operations}};
  return json_text(whole, 1) + "\n";
}

std::optional<OperationTimes> parse_operations(std::string_view text) {
  const auto whole = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) return std::nullopt;
  OperationTimes times;
  try {
    times.steps = {.first = whole.at("first_step").get<std::int64_t>(),
                   .count = whole.at("steps").get<std::int64_t>(),
                   .seconds = whole.at("seconds").get<double>()};
    times.cores = whole.at("cores").get<std::int64_t>();
    for (const auto& one : whole.at("operations"))
      times.operations.push_back({.name = one.at("op").get<std::string>(),
                                  .seconds = one.at("seconds").get<double>(),
                                  .flops = one.at("flops").get<double>(),
                                  .bytes = one.at("bytes").get<double>(),
                                  .calls = one.at("calls").get<std::int64_t>()});
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  if (times.steps.count < 1 || !(times.steps.seconds > 0) || times.cores < 1) return std::nullopt;
  return times;
}

void write_operations(const std::filesystem::path& run, const OperationTimes& times) {
  replace_text(run / kFile, operations_text(times));
}

std::optional<OperationTimes> read_operations(const std::filesystem::path& run) {
  const auto text = read_text(run / kFile, kMostFileBytes);
  return text ? parse_operations(*text) : std::nullopt;
}

}  // namespace podium
