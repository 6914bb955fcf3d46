// Why a start of a run ended early, in the run's folder: failures.jsonl, one line a failure,
//
//   {"date": "2026-01-31T12:00:00Z", "step": 312, "failure": "rank 2 on host b, ...", "heard": 3}
//
// where "heard" is the number of ranks that whoever wrote it still heard. Ranks that are cut off
// from each other each see the others fail: of the lines of one start, that of the most ranks
// holds. A run of one process writes what its last line of stderr said. train/run/last_failure.h
// reads the file.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

inline constexpr char kFailureFile[] = "failures.jsonl";

// Appends a line with the date of now. Nothing happens where that cannot be done: the run ends
// anyway.
void record_failure(const std::string& folder, std::int64_t step, const std::string& text,
                    int heard);

// The most "heard" of the lines that begin after so many bytes; -1: there is none.
int most_heard(const std::string& folder, std::int64_t after);
// Of the file now; 0 where there is none.
std::int64_t failure_bytes(const std::string& folder);

}  // namespace podium
