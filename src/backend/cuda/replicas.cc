#include "backend/cuda/replicas.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backend/cuda/kernels/move.h"
#include "backend/cuda/kernels/norms.h"
#include "backend/cuda/seeded_fault.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr std::int64_t kWordSize = 4;

Words words_at(std::byte* first, std::int64_t stride) {
  return {reinterpret_cast<std::uint32_t*>(first), stride / kWordSize};
}
Floats floats_at(std::byte* first, std::int64_t stride) {
  return {reinterpret_cast<float*>(first), stride / kWordSize};
}

}  // namespace

CudaExecutable& program_of(const Call& call) { return static_cast<CudaExecutable&>(*call.program); }

void RecordedLaunches::run(Queue& queue, bool recordable,
                           const std::function<void(BranchStreams*)>& launches) {
  // The first run loads the kernels, which a recording must not.
  const bool is_first = std::exchange(is_first_, false);
  if (!recordable || is_first) return launches(nullptr);
  if (recording_ == nullptr) {
    BranchStreams streams;
    recording_ = runtime::record(queue.stream, [&] { launches(&streams); });
  }
  recording_->play(queue.stream);
}

CudaReplicas::CudaReplicas(Cards& cards, Queue& queue, ReplicasProgram program)
    : cards_(cards), queue_(queue), program_(std::move(program)) {
  for (const Call& call : program_.replicas) {
    reads_.insert(reads_.end(), call.inputs.begin(), call.inputs.end());
    std::ranges::copy_if(call.outputs, std::back_inserter(writes_),
                         [&](const View& view) { return !is_part(view, program_.sum); });
  }
  writes_.push_back(program_.losses);
  for (const ReplicasProgram::Sum& sum : program_.sums) writes_.push_back(sum.view);
  static_cast<void>(prepare());
  const auto replicas = std::ssize(program_.replicas);
  const Call& first = program_.replicas[0];
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
  if (replicas > 1) sums_ = Allocation(replicas * program_.sum.bytes);
  together_ = is_recordable() && std::ranges::all_of(program_.replicas, [&](const Call& call) {
                return call.program == first.program;
              });
  for (std::size_t i = 0; i < first.inputs.size(); ++i)
    together_ = together_ && common_place(i, false);
  for (std::size_t i = 0; i < first.outputs.size(); ++i)
    together_ = together_ && common_place(i, true);
  for (std::size_t r = 0; r < program_.replicas.size(); ++r)
    arena_bytes_ = std::max(arena_bytes_, this->program(r).arena_bytes());
  if (together_) arena_bytes_ *= replicas;
  steps_ = find_steps();
}

std::vector<std::size_t> CudaReplicas::find_steps() const {
  const Call& last = program_.replicas.back();
  const CudaExecutable& its = program_of(last);
  std::vector<std::size_t> steps(milestones(), 0);
  for (std::size_t i = 0; i < last.outputs.size(); ++i) {
    const auto found = std::ranges::find_if(
        program_.milestones, [&](const View& view) { return is_part(last.outputs[i], view); });
    const bool is_added = is_part(last.outputs[i], program_.sum);
    PODIUM_CHECK(!is_added || found != program_.milestones.end(), "output ", i,
                 " lies in no milestone");
    const auto milestone =
        is_added ? static_cast<std::size_t>(found - program_.milestones.begin()) : 0;
    steps[milestone] = std::max(steps[milestone], its.steps_until(i));
  }
  for (std::size_t i = 1; i < steps.size(); ++i) steps[i] = std::max(steps[i], steps[i - 1]);
  steps.back() = its.steps();
  return steps;
}

bool CudaReplicas::is_recordable() const {
  return std::ranges::all_of(program_.replicas,
                             [](const Call& call) { return program_of(call).is_recordable(); });
}

bool CudaReplicas::prepare() {
  cards_.prepare(queue_, reads_, writes_);
  std::vector<const std::byte*> places;
  for (const auto* views : {&reads_, &writes_})
    for (const View& view : *views) places.push_back(address(view, queue_));
  return std::exchange(places_, places) != places;
}

// A sum of its own; of a single replica, that is the sum.
std::byte* CudaReplicas::addend(std::size_t replica) const {
  if (program_.replicas.size() == 1) return address(program_.sums[0].view, queue_);
  return sums_.data() + static_cast<std::int64_t>(replica) * program_.sum.bytes;
}

Place CudaReplicas::place_of(const View& view, std::size_t replica) const {
  if (!is_part(view, program_.sum)) return {address(view, queue_), 0};
  return {addend(replica) + (view.offset - program_.sum.offset), 0};
}

std::optional<Place> CudaReplicas::common_place(std::size_t i, bool output) const {
  const auto of_replica = [&](std::size_t r) {
    const Call& call = program_.replicas[r];
    return output ? place_of(call.outputs[i], r).first : address(call.inputs[i], queue_);
  };
  Place place{of_replica(0), 0};
  for (std::size_t r = 1; r < program_.replicas.size(); ++r) {
    if (r == 1) place.stride = of_replica(1) - place.first;
    if (of_replica(r) != place.of(static_cast<unsigned>(r))) return std::nullopt;
  }
  if (place.stride % kWordSize != 0) return std::nullopt;
  return place;
}

std::int64_t CudaReplicas::offset_of(std::size_t milestone) const {
  return program_.milestones[milestone].offset - program_.sum.offset;
}

std::vector<View> CudaReplicas::sums_of(std::size_t milestone) const {
  std::vector<View> views;
  for (const ReplicasProgram::Sum& sum : program_.sums)
    views.push_back(sum.view.part(offset_of(milestone), program_.milestones[milestone].bytes));
  return views;
}

void CudaReplicas::launch(std::size_t milestone, std::byte* arena) {
  const std::size_t replicas = program_.replicas.size();
  const int count = static_cast<int>(replicas);
  const std::size_t begin = milestone == 0 ? 0 : steps_[milestone - 1], end = steps_[milestone];
  if (together_) {
    const Call& first = program_.replicas[0];
    std::vector<Place> in, out;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) in.push_back(*common_place(i, false));
    for (std::size_t i = 0; i < first.outputs.size(); ++i) out.push_back(*common_place(i, true));
    program(0).launch_steps(begin, end, count, arena, in, out);
  } else {
    // The last one alone goes from milestone to milestone.
    for (std::size_t r = milestone == 0 ? 0 : replicas - 1; r < replicas; ++r) {
      std::vector<Place> out;
      for (const View& view : program_.replicas[r].outputs) out.push_back(place_of(view, r));
      const std::vector<Place> in = places_of(program_.replicas[r].inputs, queue_);
      if (r + 1 == replicas)
        program(r).launch_steps(begin, end, 1, arena, in, out);
      else
        program(r).launch(1, arena, in, out);
    }
  }
  if (seeded(SeededFault::kWaitsWhileRecording)) runtime::synchronise(queue_.stream);
  const std::int64_t bytes = program_.sum.bytes;
  if (milestone == 0)
    copy_words({.stream = queue_.stream, .replicas = count}, 1,
               words_at(addend(0) + program_.loss.offset - program_.sum.offset, bytes),
               words_at(address(program_.losses, queue_), kWordSize));
  if (replicas == 1) return;
  const std::int64_t first = offset_of(milestone), length = program_.milestones[milestone].bytes;
  for (const ReplicasProgram::Sum& sum : program_.sums)
    tree_over_parts({.stream = queue_.stream}, length / kWordSize,
                    static_cast<std::int64_t>(sum.count),
                    floats_at(addend(sum.first) + first, bytes),
                    floats_at(address(sum.view, queue_) + first, 0));
}

std::string CudaReplicas::text() const {
  return cat("replicas, ", program_.replicas.size(), together_ ? " together" : "", ":\n",
             program(0).text(), "the tree over the replicas\n");
}

CudaWorkerReplicas::CudaWorkerReplicas(Cards& cards, Queue& queue, ReplicasProgram program)
    : cards_(cards), queue_(queue), replicas_(cards, queue, std::move(program)) {
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
  arena_ = Allocation::scratch(replicas_.arena_bytes());
  parts_.resize(replicas_.milestones());
}

void CudaWorkerReplicas::run(const std::function<void(std::size_t)>& reached) {
  const bool has_moved = replicas_.prepare();
  {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (has_moved) parts_[i].launches.forget();
      parts_[i].launches.run(queue_, replicas_.is_recordable(),
                             [this, i](BranchStreams*) { replicas_.launch(i, arena_.data()); });
      parts_[i].end->set(queue_.stream);
    }
  }
  std::vector<ReadyPart> ready;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    for (const View& view : replicas_.sums_of(i)) ready.push_back({view, parts_[i].end});
  cards_.add_ready(queue_, ready);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    queue_.call_ahead(*parts_[i].end, [&] { reached(i); });
}

}  // namespace podium::PODIUM_CUDA_SPACE
