// What a run asks of its pictures before step 1. Data without pictures pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/stop.h"
#include "train/run/run.h"

namespace podium {

// Throws UserError(kUsage) if a run's folder lies in that of its pictures: it would become data.
void require_outside(const std::filesystem::path& out, const Recipe& recipe,
                     const std::string& data_dir);

// Throws UserError(kData), which names the pictures, if some to evaluate cannot be decoded, with
// the remedy for a run that has begun or has not. What decodes is noted in the pictures' index.
void require_decodable(const RunData& data, bool begun, StopToken stop);

// Throws UserError(kMemory) if a run that holds `rest` cannot also decode the largest picture of
// its data, whose contents are known, on each thread.
void require_decoding_memory(const RunData& data, std::int64_t rest, std::int64_t threads,
                             std::int64_t limit);

}  // namespace podium
