// Why the last start of a run failed, if that was recorded (parallel/failure_record.h).
#pragma once

#include <filesystem>
#include <string>

namespace podium {

// "rank 2 on host b, step 312 (training): it was killed ..."; empty if the last start of the run
// (environment.json) did not end with a failure, or if there was no start.
std::string last_failure(const std::filesystem::path& run);

}  // namespace podium
