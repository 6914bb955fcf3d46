// The time that a step spends in each operation, from some profiled steps of a run; kept in
// RUN/operations.json for its page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/run.h"

namespace podium {

struct OperationTimes {
  ProfiledSteps steps;
  std::int64_t cores = 0;  // workers times threads
  // By falling time. Seconds, FLOPs, bytes and calls are sums over the steps and all workers.
  std::vector<KernelProfile> operations;
};

// An operation's kernels (transform, products, ...), on all workers, as one entry, in the order of
// their first.
std::vector<KernelProfile> by_operation(const Trainer& trainer);

// Of a trainer that was profiled for `steps`.
OperationTimes operation_times(const Trainer& trainer, const ProfiledSteps& steps);

std::string operations_text(const OperationTimes& times);
// Nothing if the text is not what operations_text() writes.
std::optional<OperationTimes> parse_operations(std::string_view text);

// Throws UserError(kData) if the file cannot be written.
void write_operations(const std::filesystem::path& run, const OperationTimes& times);
// Nothing if there is no such file, or another program wrote it.
std::optional<OperationTimes> read_operations(const std::filesystem::path& run);

}  // namespace podium
