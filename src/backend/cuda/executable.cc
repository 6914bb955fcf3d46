#include "backend/cuda/executable.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "backend/cuda/seeded_fault.h"
#include "backend/host_device.h"
#include "compile/fuse.h"
#include "compile/memory_plan.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Programs are bound to few sets of memory: that of a step, and of a step that a test makes.
constexpr std::size_t kMostRecordings = 8;

struct Layout {
  Program program;
  Plan plan;
  std::vector<std::int64_t> offsets;
  int branches = 1;
};

// A donated output is written where its input lay, so nothing may read that afterwards.
void require_donations(const Program& program, const Plan& plan) {
  const auto is = [&](Slot slot, SlotInfo::Kind kind, int external) {
    const SlotInfo& info = program.slots[static_cast<std::size_t>(slot)];
    return info.kind == kind && info.external == external;
  };
  for (const auto& [output, input] : plan.donated) {
    bool written = false;
    for (const Step& step : program.steps) {
      for (const Slot slot : step.reads)
        PODIUM_CHECK(!written || !is(slot, SlotInfo::Kind::kInput, input), step.name, " reads \"",
                     plan.inputs[static_cast<std::size_t>(input)].name,
                     "\", whose memory has become that of \"",
                     plan.outputs[static_cast<std::size_t>(output)].name, "\"");
      for (const Slot slot : step.writes)
        written = written || is(slot, SlotInfo::Kind::kOutput, output);
    }
  }
}

// Where the slots of a branch lie in the arena, behind those of the branches before.
void place_branch(Layout& layout, int branch) {
  const Program& program = layout.program;
  std::map<Slot, Lifetime> found;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    if (program.steps[i].branch != branch) continue;
    const auto at = static_cast<std::int64_t>(i);
    for (const auto* used : {&program.steps[i].reads, &program.steps[i].writes})
      for (const Slot slot : *used) {
        const SlotInfo& info = program.slots[static_cast<std::size_t>(slot)];
        if (info.kind != SlotInfo::Kind::kArena) continue;
        const Lifetime begun{.bytes = info.bytes, .first = at, .last = at};
        found.emplace(slot, begun).first->second.last = at;
      }
  }
  std::vector<Lifetime> lives;
  for (const auto& [slot, life] : found) lives.push_back(life);
  const MemoryPlan memory = plan_memory(lives);
  std::size_t i = 0;
  for (const auto& [slot, life] : found)
    layout.offsets[static_cast<std::size_t>(slot)] = layout.plan.arena_bytes + memory.offsets[i++];
  layout.plan.arena_bytes += memory.bytes;
}

Layout lay_out(const Graph& graph, const CompileOptions& options) {
  const Graph prepared = options.fuse ? fuse(graph) : without_dead_nodes(graph);
  prepared.verify();
  Layout layout{.program = Lowering(prepared).run(), .plan = interface_of(prepared, options)};
  const Program& program = layout.program;
  require_donations(program, layout.plan);
  layout.branches = find_branches(layout.program, layout.plan.donated);
  layout.offsets.resize(program.slots.size(), 0);
  // What runs side by side has memory side by side.
  for (int branch = 0; branch < layout.branches; ++branch) place_branch(layout, branch);
  for (const Step& step : program.steps)
    layout.plan.kernels.push_back({step.name, step.cost.flops, step.cost.bytes});
  return layout;
}

// Times the steps of a run, and the phases of those that tell of some.
class StepTimer : public Phases {
 public:
  explicit StepTimer(Stream stream) : stream_(stream) {}
  // What follows belongs to this step.
  void begin_step(std::size_t step) {
    step_ = step;
    begin("");
  }
  void begin(const char* phase) override {
    marks_->add(stream_);
    spans_.push_back({step_, phase});
  }
  void end() { marks_->add(stream_); }
  // Calls f(step, phase, seconds) for all spans between two marks.
  template <typename F>
  void for_each(const F& f) const {
    for (std::size_t i = 0; i < spans_.size(); ++i)
      f(spans_[i].step, spans_[i].phase, marks_->seconds_between(i, i + 1));
  }

 private:
  struct Span {
    std::size_t step;
    const char* phase;
  };
  Stream stream_;
  std::size_t step_ = 0;
  std::unique_ptr<runtime::Marks> marks_ = runtime::make_marks();
  std::vector<Span> spans_;
};

bool same(const Place& a, const Place& b) { return a.first == b.first && a.stride == b.stride; }

}  // namespace

std::vector<Place> places_of(std::span<const View> views, const Queue& queue) {
  std::vector<Place> places;
  places.reserve(views.size());
  for (const View& view : views) places.push_back({address(view, queue), 0});
  return places;
}

Plan plan_of(const Graph& graph, const CompileOptions& options) {
  return lay_out(graph, options).plan;
}

CudaExecutable::CudaExecutable(Cards& cards, Queue& queue, const Graph& graph,
                               const CompileOptions& options)
    : cards_(cards), queue_(queue) {
  Layout layout = lay_out(graph, options);
  program_ = std::move(layout.program);
  plan_ = std::move(layout.plan);
  offsets_ = std::move(layout.offsets);
  branches_ = layout.branches;
  recordable_ =
      std::ranges::none_of(program_.steps, [](const Step& step) { return bool{step.on_host}; });
  const std::scoped_lock lock(queue_.mutex);
  runtime::use(queue_.device);
  for (const std::vector<std::byte>& bytes : program_.constants) {
    constants_.emplace_back(std::ssize(bytes));
    runtime::upload(queue_.stream, constants_.back().data(), bytes.data(), std::ssize(bytes));
  }
}

std::byte* CudaExecutable::own_arena() {
  if (arena_.data() == nullptr) arena_ = Allocation::scratch(plan_.arena_bytes);
  return arena_.data();
}

Memory CudaExecutable::bind(int replicas, std::byte* arena, std::span<const Place> inputs,
                            std::span<const Place> outputs) const {
  Memory memory(program_.slots.size());
  for (std::size_t i = 0; i < program_.slots.size(); ++i) {
    const SlotInfo& info = program_.slots[i];
    const auto slot = static_cast<Slot>(i);
    const auto external = static_cast<std::size_t>(info.external);
    switch (info.kind) {
      case SlotInfo::Kind::kArena:
        memory.set(slot, arena + offsets_[i], replicas > 1 ? plan_.arena_bytes : 0);
        break;
      case SlotInfo::Kind::kInput:
        memory.set(slot, inputs[external].first, inputs[external].stride);
        break;
      case SlotInfo::Kind::kOutput:
        memory.set(slot, outputs[external].first, outputs[external].stride);
        break;
      case SlotInfo::Kind::kConstant: memory.set(slot, constants_[external].data(), 0); break;
    }
  }
  return memory;
}

void CudaExecutable::run_step(const Step& step, const Launch& launch, const Memory& memory) const {
  if (!step.on_host) return step.run(launch, memory);
  PODIUM_CHECK(launch.replicas == 1, step.name, " is computed by the host, for one replica");
  const auto bytes_of = [&](Slot slot) {
    return program_.slots[static_cast<std::size_t>(slot)].bytes;
  };
  std::vector<std::vector<std::byte>> copies;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Slot slot : step.reads) {
    copies.emplace_back(static_cast<std::size_t>(bytes_of(slot)));
    runtime::download(queue_.stream, copies.back().data(), memory.first(slot), bytes_of(slot));
    in.push_back(copies.back().data());
  }
  for (const Slot slot : step.writes) {
    copies.emplace_back(static_cast<std::size_t>(bytes_of(slot)));
    out.push_back(copies.back().data());
  }
  step.on_host(in, out);
  for (std::size_t i = 0; i < out.size(); ++i)
    runtime::upload(queue_.stream, memory.first(step.writes[i]), out[i], bytes_of(step.writes[i]));
}

void CudaExecutable::launch_steps(std::size_t begin, std::size_t end, int replicas,
                                  std::byte* arena, std::span<const Place> inputs,
                                  std::span<const Place> outputs, BranchStreams* streams) {
  const Memory memory = bind(replicas, arena, inputs, outputs);
  const std::span<const Step> steps = std::span(program_.steps).subspan(begin, end - begin);
  Launch launch{.stream = queue_.stream, .replicas = replicas, .warpgroups = queue_.warpgroups};
  if (!profiling_ && streams != nullptr && branches_ > 1) {
    streams->fork(queue_.stream, branches_);
    for (const Step& step : steps) {
      launch.stream = streams->of(step.branch);
      run_step(step, launch, memory);
    }
    streams->join();
    return;
  }
  if (!profiling_) {
    for (const Step& step : steps) run_step(step, launch, memory);
    return;
  }
  StepTimer timer(queue_.stream);
  launch.phases = &timer;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    timer.begin_step(begin + i);
    run_step(steps[i], launch, memory);
  }
  timer.end();
  timer.for_each([&](std::size_t step, const char* phase, double seconds) {
    seconds_[step][phase] += seconds;
  });
  if (end == program_.steps.size()) runs_ += replicas;
}

std::size_t CudaExecutable::steps_until(std::size_t output) const {
  const auto is_it = [&](Slot slot) {
    const SlotInfo& info = program_.slots[static_cast<std::size_t>(slot)];
    return info.kind == SlotInfo::Kind::kOutput &&
           static_cast<std::size_t>(info.external) == output;
  };
  for (std::size_t i = program_.steps.size(); i > 0; --i)
    if (std::ranges::any_of(program_.steps[i - 1].writes, is_it)) return i;
  return 0;
}

CudaExecutable::Recorded& CudaExecutable::recorded(std::span<const Place> places) {
  for (Recorded& known : recordings_)
    if (std::ranges::equal(known.places, places, same) || seeded(SeededFault::kStaleRecording))
      return known;
  if (recordings_.size() == kMostRecordings) recordings_.erase(recordings_.begin());
  return recordings_.emplace_back(Recorded{.places = {places.begin(), places.end()}});
}

void CudaExecutable::run(std::span<const View> inputs, std::span<const View> outputs) {
  cards_.prepare(queue_, inputs, outputs);
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
  const std::vector<Place> in = places_of(inputs, queue_), out = places_of(outputs, queue_);
  if (!is_recordable()) return launch(1, own_arena(), in, out);
  std::vector<Place> all = in;
  all.insert(all.end(), out.begin(), out.end());
  Recorded& found = recorded(all);
  // The first run loads the kernels, which a recording must not.
  if (!std::exchange(found.seen, true)) return launch(1, own_arena(), in, out);
  if (found.recording == nullptr) {
    found.recording = runtime::record(queue_.stream, [&] { launch(1, own_arena(), in, out); });
  }
  found.recording->play(queue_.stream);
}

bool CudaExecutable::is_finite(Slot slot, const Memory& memory) const {
  const SlotInfo& info = program_.slots[static_cast<std::size_t>(slot)];
  if (info.dtype != DType::kF32 || info.scratch) return true;
  std::vector<float> values(static_cast<std::size_t>(info.bytes) / sizeof(float));
  runtime::download(queue_.stream, values.data(), memory.first(slot), info.bytes);
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

std::optional<std::string> CudaExecutable::find_non_finite(std::span<const View> inputs,
                                                           std::span<const View> outputs) {
  cards_.prepare(queue_, inputs, outputs);
  const std::scoped_lock lock(queue_.mutex);
  queue_.settle();
  const Memory memory = bind(1, own_arena(), places_of(inputs, queue_), places_of(outputs, queue_));
  for (const Step& step : program_.steps) {
    run_step(step, {.stream = queue_.stream}, memory);
    for (const Slot slot : step.writes)
      if (!is_finite(slot, memory)) return step.name;
  }
  return std::nullopt;
}

void CudaExecutable::start_profile() {
  profiling_ = true;
  runs_ = 0;
  seconds_.assign(program_.steps.size(), {});
}

std::vector<KernelProfile> CudaExecutable::profile() const {
  std::vector<KernelProfile> rows;
  const auto runs = static_cast<double>(runs_);
  for (std::size_t i = 0; !seconds_.empty() && i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    const std::string costly = seconds_[i].contains(kProductsPhase) ? kProductsPhase : "";
    for (const auto& [phase, seconds] : seconds_[i]) {
      // Nothing happens before the first phase of a step that has some.
      if (phase.empty() && !costly.empty()) continue;
      const double cost_runs = phase == costly ? runs : 0;
      rows.push_back({phase.empty() ? step.name : cat(step.name, ": ", phase), seconds,
                      step.cost.flops * cost_runs, step.cost.bytes * cost_runs, runs_});
    }
  }
  return rows;
}

std::string CudaExecutable::text() const {
  std::string lines;
  for (const Step& step : program_.steps) lines += step.name + "\n";
  return lines;
}

}  // namespace podium::PODIUM_CUDA_SPACE
