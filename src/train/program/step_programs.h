// The small programs of a step, in addition to those of replicas and the update
// (train/program/program.h): means over replicas, hashes of parameters, the norm of all gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "train/program/program.h"

namespace podium {

// A range of bytes of flat memory.
struct FlatRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t bytes() const { return end - begin; }
};

// Inputs sum/0, sum/1, ..., FP32 vectors as long as the ranges. Outputs mean/i: sum/i divided by
// `divisor`.
Graph build_mean_program(const std::vector<FlatRange>& ranges, std::int64_t divisor);
// The parts of the statistics that a step changes, within [begin, end); neighbours are one.
std::vector<FlatRange> changed_statistics(const FlatLayout& layout, std::int64_t begin,
                                          std::int64_t end);

// A share of one parameter.
struct HashShare {
  std::size_t parameter = 0;  // in FlatLayout::parameters
  FlatRange range;
};
// Of the parameters within [begin, end), which starts at an even element of each.
std::vector<HashShare> hash_shares(const FlatLayout& layout, std::int64_t begin, std::int64_t end);
// Inputs values/0, ... Outputs hash/i, u32[2]: the low and the high word of hash_sum()
// (base/numerics/hash.h) of the share.
Graph build_hash_program(const FlatLayout& layout, const std::vector<HashShare>& shares);

// The gradients in runs of at most kSquareRun elements, each within one trained parameter.
struct SquareRuns {
  std::vector<FlatRange> ranges;         // of each run
  std::vector<std::int64_t> first_runs;  // of each trained parameter, and the number of all runs
  std::int64_t count() const { return static_cast<std::int64_t>(ranges.size()); }
};
SquareRuns square_runs(const FlatLayout& layout);
// Runs [begin, end) as ranges that each lie within one parameter: the first run and the bytes.
struct SquarePiece {
  std::int64_t first_run = 0, runs = 0;
  FlatRange range;
};
std::vector<SquarePiece> square_pieces(const SquareRuns& runs, std::int64_t begin,
                                       std::int64_t end);
// Inputs gradient/0, ... Outputs squares/i: a sum of squares of each run.
Graph build_square_program(const std::vector<SquarePiece>& pieces);
// Input squares: of all runs. Outputs norm, of all gradients together, and factor, by which they
// are multiplied so that it is at most `limit`. With `corrects`, a further input, correction, is
// what the gradients are still to be multiplied by: norm is that of the corrected ones, and factor
// is the product of both, rounded once.
Graph build_norm_program(const SquareRuns& runs, float limit, bool corrects);
// Input values, an FP32 vector of so many bytes, and factor. Output scaled: their product.
Graph build_scale_program(std::int64_t bytes);

}  // namespace podium
