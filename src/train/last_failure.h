// Why the last start of a run ended, where its ranks said so: what parallel/failure_record.h wrote.
#pragma once

#include <filesystem>
#include <string>

namespace podium {

// "rank 2 on host b, step 312 (training): it was killed ..."; empty where the last start of the run
// (environment.json) did not end by a failure of its ranks, and where there was none.
std::string last_failure(const std::filesystem::path& run);

}  // namespace podium
