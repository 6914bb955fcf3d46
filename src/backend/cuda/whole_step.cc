#include "backend/cuda/whole_step.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "backend/cuda/kernels/move.h"
#include "backend/cuda/kernels/norms.h"
#include "backend/cuda/seeded_fault.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr std::int64_t kWord = 4;

bool is_part(const View& view, const View& whole) {
  return view.buffer == whole.buffer && view.offset >= whole.offset &&
         view.offset + view.bytes <= whole.offset + whole.bytes;
}

Words words_at(std::byte* first, std::int64_t stride) {
  return {reinterpret_cast<std::uint32_t*>(first), stride / kWord};
}
Floats floats_at(std::byte* first, std::int64_t stride) {
  return {reinterpret_cast<float*>(first), stride / kWord};
}

CudaExecutable& program_of(const Call& call) { return static_cast<CudaExecutable&>(*call.program); }

}  // namespace

CudaStep::CudaStep(Queue& queue, StepProgram step)
    : queue_(queue),
      step_(std::move(step)),
      worker_(step_.workers[0]),
      losses_{worker_.losses},
      norm_{worker_.norm_values} {
  norm_calls_ = worker_.squares;
  if (step_.clips()) norm_calls_.push_back(worker_.norm);
  const auto replicas = std::ssize(worker_.replicas);
  const Call& first = worker_.replicas[0];
  together_ = is_recordable() && std::ranges::all_of(worker_.replicas, [&](const Call& call) {
                return call.program == first.program;
              });
  for (std::size_t i = 0; i < first.inputs.size(); ++i)
    together_ = together_ && common_place(i, false);
  const std::scoped_lock lock(queue_.mutex);
  runtime::use(queue_.device);
  sums_ = Allocation(replicas * step_.sum.bytes);
  for (std::size_t i = 0; i < first.outputs.size(); ++i)
    together_ = together_ && common_place(i, true);
  std::int64_t arena = 0;
  for (std::size_t r = 0; r < worker_.replicas.size(); ++r)
    arena = std::max(arena, program(r).arena_bytes());
  if (together_) arena *= replicas;
  for (const std::vector<Call>* calls : later_calls())
    for (const Call& call : *calls) arena = std::max(arena, program_of(call).arena_bytes());
  arena_ = Allocation::scratch(arena);
}

CudaStep::~CudaStep() {
  const std::scoped_lock lock(queue_.mutex);
  if (queue_.pending == this) queue_.pending = nullptr;
}

std::array<const std::vector<Call>*, 3> CudaStep::later_calls() const {
  return {&norm_calls_, &worker_.scales, &worker_.updates};
}

bool CudaStep::is_recordable() const {
  const auto recordable = [](const Call& call) { return program_of(call).is_recordable(); };
  return std::ranges::all_of(worker_.replicas, recordable) &&
         std::ranges::all_of(later_calls(), [&](const std::vector<Call>* calls) {
           return std::ranges::all_of(*calls, recordable);
         });
}

CudaExecutable& CudaStep::program(std::size_t replica) const {
  return program_of(worker_.replicas[replica]);
}

// What a replica writes to the sum goes to a sum of its own.
Place CudaStep::place_of(const View& view, std::size_t replica) const {
  if (!is_part(view, step_.sum)) return {address(view, queue_), 0};
  return {sums_.data() + static_cast<std::int64_t>(replica) * step_.sum.bytes + view.offset -
              step_.sum.offset,
          0};
}

std::optional<Place> CudaStep::common_place(std::size_t i, bool output) const {
  const auto of_replica = [&](std::size_t r) {
    const Call& call = worker_.replicas[r];
    return output ? place_of(call.outputs[i], r).first : address(call.inputs[i], queue_);
  };
  Place place{of_replica(0), 0};
  for (std::size_t r = 1; r < worker_.replicas.size(); ++r) {
    if (r == 1) place.stride = of_replica(1) - place.first;
    if (of_replica(r) != place.of(static_cast<unsigned>(r))) return std::nullopt;
  }
  if (place.stride % kWord != 0) return std::nullopt;
  return place;
}

void CudaStep::launch_replicas() {
  const auto replicas = std::ssize(worker_.replicas);
  if (together_) {
    const Call& first = worker_.replicas[0];
    std::vector<Place> in, out;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) in.push_back(*common_place(i, false));
    for (std::size_t i = 0; i < first.outputs.size(); ++i) out.push_back(*common_place(i, true));
    program(0).launch(static_cast<int>(replicas), arena_.data(), in, out);
  } else {
    for (std::size_t r = 0; r < worker_.replicas.size(); ++r) {
      std::vector<Place> in, out;
      for (const View& view : worker_.replicas[r].inputs) in.push_back({address(view, queue_), 0});
      for (const View& view : worker_.replicas[r].outputs) out.push_back(place_of(view, r));
      program(r).launch(1, arena_.data(), in, out);
    }
  }
  if (seeded(SeededFault::kWaitsWhileRecording)) runtime::synchronise(queue_.stream);
  const Launch all{.stream = queue_.stream, .replicas = static_cast<int>(replicas)};
  copy_words(all, 1, words_at(sums_.data() + step_.loss.offset - step_.sum.offset, step_.sum.bytes),
             words_at(address(worker_.losses, queue_), kWord));
  tree_over_parts({.stream = queue_.stream}, step_.sum.bytes / kWord, replicas,
                  floats_at(sums_.data(), step_.sum.bytes),
                  floats_at(address(step_.sum, queue_), 0));
  launch_calls(norm_calls_, nullptr);
}

void CudaStep::launch_calls(const std::vector<Call>& calls, BranchStreams* streams) {
  for (const Call& call : calls) {
    std::vector<Place> in, out;
    for (const View& view : call.inputs) in.push_back({address(view, queue_), 0});
    for (const View& view : call.outputs) out.push_back({address(view, queue_), 0});
    program_of(call).launch(1, arena_.data(), in, out, streams);
  }
}

void CudaStep::run_recorded(Recorded& recorded,
                            const std::function<void(BranchStreams*)>& launches) {
  // The first run loads the kernels, which a recording must not.
  const bool is_first = std::exchange(recorded.is_first, false);
  if (!is_recordable() || is_first) return launches(nullptr);
  if (recorded.launches == nullptr) {
    BranchStreams streams;
    recorded.launches = runtime::record(queue_.stream, [&] { launches(&streams); });
  }
  recorded.launches->play(queue_.stream);
}

void CudaStep::run_calls(const std::vector<Call>& calls, Recorded& recorded) {
  run_recorded(recorded, [&](BranchStreams* streams) { launch_calls(calls, streams); });
}

void CudaStep::run() {
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
  losses_.values.clear();
  norm_.values.clear();
  run_recorded(replicas_, [this](BranchStreams*) { launch_replicas(); });
  queue_.pending = this;
}

const std::vector<float>& CudaStep::look_at(Seen& seen) {
  if (seen.values.empty()) {
    seen.values.resize(static_cast<std::size_t>(seen.view.bytes / kWord));
    runtime::download(queue_.stream, seen.values.data(), address(seen.view, queue_),
                      seen.view.bytes);
  }
  return seen.values;
}

void CudaStep::finish() {
  if (seeded(SeededFault::kHostReadsDevice))
    losses_.values.assign(1, *reinterpret_cast<const float*>(address(worker_.losses, queue_)));
  const bool finite =
      std::ranges::all_of(look_at(losses_), [](float x) { return std::isfinite(x); });
  if (!finite && !seeded(SeededFault::kUpdateWithoutLosses)) return;
  if (step_.clips()) {
    const float norm = look_at(norm_)[0], factor = look_at(norm_)[1];
    if (!std::isfinite(norm)) return;
    if (factor != 1.0f) run_calls(worker_.scales, scales_);
  }
  run_calls(worker_.updates, updates_);
}

void CudaStep::have_seen(const void* values, const View& view) {
  for (Seen* seen : {&losses_, &norm_}) {
    if (!seen->view || !is_part(seen->view, view)) continue;
    const auto* const first = reinterpret_cast<const float*>(static_cast<const std::byte*>(values) +
                                                             (seen->view.offset - view.offset));
    seen->values.assign(first, first + seen->view.bytes / kWord);
  }
}

bool CudaStep::updates_use(const Buffer& buffer) const {
  const auto is_it = [&](const View& view) { return view.buffer == &buffer; };
  return std::ranges::any_of(worker_.updates, [&](const Call& call) {
    return std::ranges::any_of(call.inputs, is_it) || std::ranges::any_of(call.outputs, is_it);
  });
}

std::string CudaStep::text() const {
  std::string text = cat("replicas, ", worker_.replicas.size(), together_ ? " together" : "", ":\n",
                         program(0).text(), "the tree over the replicas\n");
  const auto add = [&](const std::vector<Call>& calls) {
    for (const Call& call : calls) text += program_of(call).text();
  };
  add(norm_calls_);
  if (step_.clips()) text += "if all losses and the norm are finite, and the factor is not 1:\n";
  add(worker_.scales);
  text += cat("if all losses ", step_.clips() ? "and the norm " : "", "are finite:\n");
  add(worker_.updates);
  return text;
}

}  // namespace podium::PODIUM_CUDA_SPACE
