// What a Predictor holds, for those that go on with its network.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "train/loop/inference.h"
#include "train/machine/environment.h"
#include "train/predict/predictor.h"
#include "train/program/program.h"
#include "train/run/rank_plan.h"

namespace podium {

struct Predictor::State {
  Recipe recipe;
  std::int64_t step = 0;
  Model model;
  Placement placement;
  std::vector<Field> fields, inputs;  // all, and those that the network reads
  std::string output;                 // the one that is predicted: its first
  Shape output_row;                   // of one example
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<DeviceTensor> tensors;
  std::unique_ptr<ThreadPool> threads;
  std::int64_t most_at_once = 256;
  struct Stream {
    BatchMemory batch;
    std::unique_ptr<Inference> inference;
  };
  std::map<std::int64_t, std::vector<Stream>> streams;  // by batch, a worker each

  Graph program_of(std::int64_t rows) const {
    return build_evaluation_program(
        model, {.fields = fields, .rows = rows, .precision = precision_on(*device, recipe)});
  }

  void bind(BoundExecutable& program) const {
    for (const DeviceTensor& tensor : tensors) program.bind_input(tensor.name, tensor.memory);
  }

  // One for each worker, compiled when first asked for, of the batch for so many examples: a power
  // of two, so that there are few programs; no larger than keeps all workers busy, or than fits
  // into half of the memory that this process may take.
  std::vector<Stream>& streams_for(std::int64_t examples) {
    const std::int64_t share = (examples + placement.workers - 1) / placement.workers;
    const auto rounded =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(share)));
    while (true) {
      const std::int64_t batch = std::min(most_at_once, rounded);
      std::vector<Stream>& own = streams[batch];
      if (!own.empty()) return own;
      const Graph graph = program_of(batch);
      if (batch > 1 &&
          device->plan(graph, {}).arena_bytes > usable_memory_bytes() / 2 / placement.workers) {
        streams.erase(batch);
        most_at_once = batch / 2;
        continue;
      }
      for (int w = 0; w < static_cast<int>(placement.workers); ++w) {
        BatchMemory& memory = own.emplace_back().batch;
        memory = BatchMemory(*device, inputs, batch);
        own.back().inference =
            std::make_unique<Inference>(*device, w, BoundExecutable(*device, graph, {.worker = w}),
                                        graph, recipe.evaluation.views, tensors, memory);
      }
      return own;
    }
  }

  // `fill` writes the inputs of examples [first, first + n). Returns the first output, a row each.
  Tensor compute(
      std::int64_t count,
      const std::function<void(std::int64_t first, std::int64_t n, FieldMemory to)>& fill) {
    const std::int64_t values = output_row.elements();
    std::vector<std::int64_t> extents = {count};
    extents.insert(extents.end(), output_row.extents().begin(), output_row.extents().end());
    Tensor result(DType::kF32, Shape(std::move(extents)));
    if (count == 0) return result;
    auto& own = streams_for(count);
    const std::int64_t batch = own.front().batch.rows();
    std::atomic<std::int64_t> next{0};  // batch, for whichever worker is free
    threads->run(static_cast<int>(placement.workers), [&](int worker, int) {
      Stream& stream = own[static_cast<std::size_t>(worker)];
      while (true) {
        const std::int64_t first = batch * next++;
        if (first >= count) break;
        const std::int64_t n = std::min(batch, count - first);
        fill(first, n, stream.batch.host());
        stream.batch.clear_integers(n);
        stream.batch.send();
        stream.inference->begin();
        stream.inference->run();
        std::memcpy(result.f32().data() + first * values, stream.inference->values(output),
                    static_cast<std::size_t>(n * values) * sizeof(float));
      }
    });
    return result;
  }
};

}  // namespace podium
