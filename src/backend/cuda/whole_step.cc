#include "backend/cuda/whole_step.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "backend/cuda/seeded_fault.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr std::int64_t kWord = 4;

}  // namespace

CudaStep::CudaStep(Cards& cards, Queue& queue, StepProgram step)
    : queue_(queue),
      step_(std::move(step)),
      worker_(step_.workers[0]),
      all_replicas_(cards, queue,
                    {.worker = 0,
                     .replicas = worker_.replicas,
                     .sum = step_.sum,
                     .loss = step_.loss,
                     .losses = worker_.losses,
                     .sums = {{0, worker_.replicas.size(), step_.sum}},
                     .milestones = {step_.sum}}),
      losses_{worker_.losses},
      norm_{worker_.norm_values} {
  norm_calls_ = worker_.squares;
  if (step_.clips()) norm_calls_.push_back(worker_.norm);
  std::int64_t arena = all_replicas_.arena_bytes();
  for (const std::vector<Call>* calls : later_calls())
    for (const Call& call : *calls) arena = std::max(arena, program_of(call).arena_bytes());
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
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
  return all_replicas_.is_recordable() &&
         std::ranges::all_of(later_calls(), [&](const std::vector<Call>* calls) {
           return std::ranges::all_of(*calls, recordable);
         });
}

void CudaStep::launch_replicas() {
  all_replicas_.launch(0, arena_.data());
  launch_calls(norm_calls_, nullptr);
}

void CudaStep::launch_calls(const std::vector<Call>& calls, BranchStreams* streams) {
  for (const Call& call : calls)
    program_of(call).launch(1, arena_.data(), places_of(call.inputs, queue_),
                            places_of(call.outputs, queue_), streams);
}

void CudaStep::run_calls(const std::vector<Call>& calls, RecordedLaunches& recorded) {
  recorded.run(queue_, is_recordable(),
               [&](BranchStreams* streams) { launch_calls(calls, streams); });
}

void CudaStep::run() {
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
  losses_.values.clear();
  norm_.values.clear();
  replicas_.run(queue_, is_recordable(), [this](BranchStreams*) { launch_replicas(); });
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
  std::string text = all_replicas_.text();
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
