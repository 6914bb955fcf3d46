// Why the last start of a run failed, if its ranks recorded it (parallel/failure_record.h).
#pragma once

#include <filesystem>
#include <string>

namespace podium {

// "rank 2 on host b, step 312 (training): it was killed ..."; empty if the last start of the run
// (environment.json) did not end with a failure of its ranks, or if there was no start.
std::string last_failure(const std::filesystem::path& run);

}  // namespace podium
