#include "train/program/step_programs.h"

#include <algorithm>

#include "ops/ops.h"

namespace podium {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(size_of(DType::kF32));

TensorType vector_of(std::int64_t bytes) { return {DType::kF32, Shape{bytes / kFloatBytes}}; }

}  // namespace

Graph build_mean_program(const std::vector<FlatRange>& ranges, std::int64_t divisor) {
  Graph graph;
  std::vector<Value> sums;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    sums.push_back(
        graph.input(cat("sum/", i), vector_of(ranges[i].bytes()), InputRole::kParameter));
  for (std::size_t i = 0; i < sums.size(); ++i)
    graph.output(cat("mean/", i), divide(graph, sums[i], static_cast<float>(divisor), "mean"));
  return graph;
}

std::vector<FlatRange> changed_statistics(const FlatLayout& layout, std::int64_t begin,
                                          std::int64_t end) {
  std::vector<FlatRange> ranges;
  for (std::size_t i = 0; i < layout.statistics.size(); ++i) {
    const FlatEntry& entry = layout.statistics[i];
    const std::int64_t next =
        i + 1 < layout.statistics.size() ? layout.statistics[i + 1].offset : layout.loss_offset;
    const std::int64_t first = std::max(begin, entry.offset), last = std::min(end, next);
    if (first >= last || !entry.trained) continue;
    if (!ranges.empty() && ranges.back().end == first) {
      ranges.back().end = last;
    } else {
      ranges.push_back({first, last});
    }
  }
  return ranges;
}

std::vector<HashShare> hash_shares(const FlatLayout& layout, std::int64_t begin, std::int64_t end) {
  std::vector<HashShare> shares;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const FlatEntry& entry = layout.parameters[i];
    const std::int64_t from = std::max(entry.offset, begin),
                       to = std::min(entry.offset + entry.bytes(), end);
    if (from < to) shares.push_back({i, {from, to}});
  }
  return shares;
}

Graph build_hash_program(const FlatLayout& layout, const std::vector<HashShare>& shares) {
  Graph graph;
  std::vector<Value> values;
  for (std::size_t i = 0; i < shares.size(); ++i)
    values.push_back(
        graph.input(cat("values/", i), vector_of(shares[i].range.bytes()), InputRole::kParameter));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const FlatEntry& entry = layout.parameters[shares[i].parameter];
    const std::int64_t first = (shares[i].range.begin - entry.offset) / kFloatBytes;
    graph.output(cat("hash/", i), hash_sum(graph, values[i], first, entry.name));
  }
  return graph;
}

SquareRuns square_runs(const FlatLayout& layout) {
  constexpr std::int64_t kRunBytes = kSquareRun * kFloatBytes;
  SquareRuns runs;
  for (const FlatEntry& entry : layout.parameters) {
    if (!entry.trained) continue;
    runs.first_runs.push_back(runs.count());
    for (std::int64_t at = 0; at < entry.bytes(); at += kRunBytes)
      runs.ranges.push_back(
          {entry.offset + at, entry.offset + std::min(at + kRunBytes, entry.bytes())});
  }
  runs.first_runs.push_back(runs.count());
  return runs;
}

std::vector<SquarePiece> square_pieces(const SquareRuns& runs, std::int64_t begin,
                                       std::int64_t end) {
  std::vector<SquarePiece> pieces;
  for (std::int64_t i = begin; i < end; ++i) {
    const FlatRange range = runs.ranges[static_cast<std::size_t>(i)];
    if (i == begin || std::ranges::find(runs.first_runs, i) != runs.first_runs.end()) {
      pieces.push_back({i, 1, range});
    } else {
      ++pieces.back().runs;
      pieces.back().range.end = range.end;
    }
  }
  return pieces;
}

Graph build_square_program(const std::vector<SquarePiece>& pieces) {
  Graph graph;
  std::vector<Value> gradients;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    gradients.push_back(graph.input(cat("gradient/", i), vector_of(pieces[i].range.bytes()),
                                    InputRole::kParameter));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    graph.output(cat("squares/", i), square_sums(graph, gradients[i], "gradient norm"));
  return graph;
}

Graph build_norm_program(const SquareRuns& runs, float limit, bool corrects) {
  Graph graph;
  const Value squares =
      graph.input("squares", {DType::kF32, Shape{runs.count()}}, InputRole::kParameter);
  Value norm = global_norm(graph, squares, runs.first_runs, "gradient norm"), correction;
  if (corrects) {
    correction = graph.input("correction", {DType::kF32, Shape{}}, InputRole::kScalar);
    norm = mul(graph, norm, correction, "gradient norm");
  }
  const Value factor = clip_factor(graph, norm, limit, "gradient norm");
  graph.output("norm", norm);
  graph.output("factor", corrects ? mul(graph, factor, correction, "gradient norm") : factor);
  return graph;
}

Graph build_scale_program(std::int64_t bytes) {
  Graph graph;
  const Value values = graph.input("values", vector_of(bytes), InputRole::kParameter);
  const Value factor = graph.input("factor", {DType::kF32, Shape{}}, InputRole::kScalar);
  graph.output("scaled", multiply_by(graph, values, factor, "clip"));
  return graph;
}

}  // namespace podium
