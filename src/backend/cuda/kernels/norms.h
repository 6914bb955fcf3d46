// What a step needs beside the network: sums of squares and norms, the tree over replicas, hashes.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {

// The sum of squares of each run of kSquareRun elements.
std::int64_t square_runs(std::int64_t count);
void square_sums(const Launch& launch, std::int64_t count, ConstFloats x, Floats sums);
// y = x * (norm / (root of the tree over `sums` + epsilon)); sums of square_runs(count) runs, of
// which nothing is left.
void rescale(const Launch& launch, std::int64_t count, const RescaleAttributes& attributes,
             ConstFloats x, Floats sums, Floats y);
// The root of the tree over parameters of the trees over their runs; first_runs [parameters + 1] as
// in GlobalNormAttributes. `scratch` as long as sums.
void global_norm(const Launch& launch, std::int64_t parameters, std::int64_t runs,
                 Each<const std::int64_t> first_runs, ConstFloats sums, Floats scratch,
                 Floats norm);
void clip_factor(const Launch& launch, float limit, ConstFloats norm, Floats factor);
void lars_rate(const Launch& launch, const LarsRateAttributes& attributes, ConstFloats parameter,
               ConstFloats gradient, ConstFloats rate, Floats own);

// The floats that hash_sum() needs beside its operands.
std::int64_t hash_scratch(std::int64_t count);
// words[2]: the low and the high word of the sum of base/numerics/hash.h.
void hash_sum(const Launch& launch, std::int64_t count, std::uint64_t first, ConstFloats x,
              Each<std::uint64_t> scratch, Each<std::uint32_t> words);

// sum[i] = the tree over `parts` tensors, part p at parts.of(p).
void tree_over_parts(const Launch& launch, std::int64_t count, std::int64_t parts,
                     ConstFloats of_part, Floats sum);

}  // namespace podium::PODIUM_CUDA_SPACE
