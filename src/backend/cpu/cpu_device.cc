#include "backend/cpu/cpu_device.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <utility>

#include "backend/cpu/jobs.h"
#include "backend/cpu/kernels/bf16/tiles.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/targets.h"
#include "backend/cpu/lowering.h"
#include "backend/host_device.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "compile/fuse.h"

namespace podium {
namespace {

using cpu::Job;
using cpu::Memory;
using cpu::Program;
using cpu::SlotInfo;
using cpu::Step;

// A worker may be helped by the next kMostGuests workers, round the circle.
constexpr int kMostGuests = 3;

// By which number `helper` is a guest of `worker`; -1 where it is none.
int guest_number(int workers, int worker, int helper) {
  const int distance = (helper - worker + workers) % workers;
  return distance >= 1 && distance <= kMostGuests ? distance - 1 : -1;
}

class CpuExecutable;

// What the others may know of a worker.
struct alignas(64) WorkerState {
  std::atomic<CpuExecutable*> running{nullptr};  // a program that others wait for
  // The largest scratch memory of its own programs, which lies near its core.
  float* scratch = nullptr;
  std::int64_t scratch_floats = 0;
};

// A lowered graph and where its values lie, before there is any memory.
struct Layout {
  Program program;
  std::vector<Job> jobs;
  std::vector<cpu::Slot> slots;  // in the arena
  MemoryPlan memory;
  std::int64_t scratch_bytes = 0;  // of all threads
  std::int64_t arena_bytes = 0;    // scratch memory and values
  bool borrows = false;            // the arena of CompileOptions::arena_of
  int guests = 0;
  std::vector<std::size_t> milestones;  // the jobs that must have run for each, in rising order
  Plan plan;
};

// After how many jobs all outputs of a milestone, and of those before it, are ready.
std::vector<std::size_t> milestones_of(const Layout& layout) {
  const auto writes_any = [&](const Step& step, const std::vector<int>& outputs) {
    return std::ranges::any_of(step.writes, [&](cpu::Slot slot) {
      const SlotInfo& info = layout.program.slots[static_cast<std::size_t>(slot)];
      return info.kind == SlotInfo::Kind::kOutput &&
             std::ranges::find(outputs, info.external) != outputs.end();
    });
  };
  std::vector<std::size_t> counts;
  std::size_t count = 0;
  for (const std::vector<int>& outputs : layout.plan.milestones) {
    for (std::size_t job = layout.jobs.size(); job > count; --job) {
      const Job& last = layout.jobs[job - 1];
      const auto steps = std::span(layout.program.steps).subspan(last.begin, last.end - last.begin);
      if (std::ranges::any_of(steps, [&](const Step& s) { return writes_any(s, outputs); })) {
        count = job;
        break;
      }
    }
    counts.push_back(count);
  }
  return counts;
}

// A donated output is written where its input lay, so nothing may read that afterwards; and its
// step stands beside none that might.
void mark_donations(Program& program, const Plan& plan) {
  for (const auto& [output, input] : plan.donated) {
    bool written = false;
    for (Step& step : program.steps) {
      for (const cpu::Slot slot : step.reads) {
        const SlotInfo& info = program.slots[static_cast<std::size_t>(slot)];
        PODIUM_CHECK(!written || info.kind != SlotInfo::Kind::kInput || info.external != input,
                     step.name, " reads \"", plan.inputs[static_cast<std::size_t>(input)].name,
                     "\", which has given its memory to \"",
                     plan.outputs[static_cast<std::size_t>(output)].name, "\"");
      }
      for (const cpu::Slot slot : step.writes) {
        const SlotInfo& info = program.slots[static_cast<std::size_t>(slot)];
        if (info.kind == SlotInfo::Kind::kOutput && info.external == output)
          written = step.updates = true;
      }
    }
  }
}

Layout lay_out(const Graph& graph, const CompileOptions& options, const DeviceOptions& device) {
  const Graph prepared = options.fuse ? fuse(graph) : without_dead_nodes(graph);
  prepared.verify();
  Layout layout;
  layout.plan = interface_of(prepared, options);
  const bool shared = !options.donations.empty() && (device.workers > 1 || device.threads > 1);
  layout.program = cpu::Lowering(prepared, shared).run();
  mark_donations(layout.program, layout.plan);
  layout.guests = options.awaited ? std::min(device.workers - 1, kMostGuests) : 0;
  const int threads = device.threads + layout.guests;
  layout.jobs = cpu::jobs_of(layout.program, threads);
  for (std::size_t slot = 0; slot < layout.program.slots.size(); ++slot)
    if (layout.program.slots[slot].kind == SlotInfo::Kind::kArena)
      layout.slots.push_back(static_cast<cpu::Slot>(slot));
  layout.memory = plan_memory(cpu::lifetimes_of(layout.program, layout.jobs, layout.slots));
  layout.milestones = milestones_of(layout);
  layout.scratch_bytes =
      static_cast<std::int64_t>(sizeof(float)) * layout.program.scratch_floats * threads;
  for (const Step& step : layout.program.steps)
    layout.plan.kernels.push_back({step.name, step.cost.flops, step.cost.bytes});
  layout.arena_bytes = layout.scratch_bytes + layout.memory.bytes;
  layout.borrows =
      options.arena_of != nullptr && options.arena_of->plan().arena_bytes >= layout.arena_bytes;
  layout.plan.arena_bytes = layout.borrows ? 0 : layout.arena_bytes;
  return layout;
}

class CpuExecutable : public Executable {
 public:
  // `worker` is the one that runs it, where others wait for that.
  CpuExecutable(Layout layout, int threads, WorkerState* worker, const Executable* arena_of)
      : guests_(layout.guests),
        pool_(threads),
        program_(std::move(layout.program)),
        jobs_(std::move(layout.jobs)),
        milestones_(std::move(layout.milestones)),
        plan_(std::move(layout.plan)),
        memory_(program_.slots.size()),
        arena_(layout.borrows ? AlignedBytes::borrowed(
                                    static_cast<const CpuExecutable*>(arena_of)->arena_.data(),
                                    static_cast<std::size_t>(layout.arena_bytes))
                              : AlignedBytes(static_cast<std::size_t>(layout.arena_bytes))),
        worker_(worker) {
    for (int thread = 0; thread < all_threads(); ++thread)
      memory_.set_scratch(
          thread, reinterpret_cast<float*>(arena_.data()) + thread * program_.scratch_floats);
    for (std::size_t i = 0; i < layout.slots.size(); ++i)
      memory_.set(layout.slots[i], arena_.data() + layout.scratch_bytes + layout.memory.offsets[i]);
    for (std::size_t slot = 0; slot < program_.slots.size(); ++slot)
      if (const SlotInfo& info = program_.slots[slot]; info.kind == SlotInfo::Kind::kConstant)
        memory_.set(static_cast<cpu::Slot>(slot),
                    program_.constants[static_cast<std::size_t>(info.external)].data());
    if (worker_ != nullptr && program_.scratch_floats > worker_->scratch_floats) {
      worker_->scratch = memory_.scratch(0);
      worker_->scratch_floats = program_.scratch_floats;
    }
  }

  ~CpuExecutable() override {
    if (worker_ == nullptr || worker_->scratch != memory_.scratch(0)) return;
    worker_->scratch = nullptr;
    worker_->scratch_floats = 0;
  }

  const Plan& plan() const override { return plan_; }

  void run(std::span<const View> inputs, std::span<const View> outputs) override {
    bind(inputs, outputs);
    announce();
    run_jobs(0, jobs_.size());
    retire();
  }

  void run_to_milestones(std::span<const View> inputs, std::span<const View> outputs,
                         const std::function<void(std::size_t)>& reached) override {
    bind(inputs, outputs);
    announce();
    std::size_t done = 0;
    for (std::size_t i = 0; i < milestones_.size(); ++i) {
      run_jobs(done, milestones_[i]);
      done = milestones_[i];
      reached(i);
    }
    run_jobs(done, jobs_.size());
    retire();
  }

  // Called by the thread of another worker, the guest of this number: does one part of what run()
  // is doing, if one is free.
  bool help(int guest, const WorkerState& own) {
    if (guest >= guests_) return false;
    // What lies here for a guest's scratch is seldom used, and then far away. Written once only:
    // the line is one that other threads read.
    const int thread = pool_.threads() + guest;
    if (own.scratch_floats >= program_.scratch_floats && memory_.scratch(thread) != own.scratch)
      memory_.set_scratch(thread, own.scratch);
    return pool_.help(guest);
  }

  std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                             std::span<const View> outputs) override {
    bind(inputs, outputs);
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      run_step(step);
      for (const cpu::Slot slot : step.writes)
        if (!writes_again(i, slot) && !finite(slot)) return step.name;
    }
    return std::nullopt;
  }

  void start_profile() override {
    profiling_ = true;
    seconds_.assign(static_cast<std::size_t>(all_threads()),
                    std::vector<double>(program_.steps.size(), 0.0));
    runs_ = 0;
  }

  void stop_profile() override { profiling_ = false; }

  std::vector<KernelProfile> profile() const override {
    std::vector<KernelProfile> rows;
    for (std::size_t i = 0; !seconds_.empty() && i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      const auto runs = static_cast<double>(runs_);
      KernelProfile& row = rows.emplace_back(
          KernelProfile{step.name, 0, step.cost.flops * runs, step.cost.bytes * runs, runs_});
      for (const std::vector<double>& of_thread : seconds_) row.seconds += of_thread[i];
    }
    return rows;
  }

 private:
  // The pool's own and guests: a part may run on any.
  int all_threads() const { return pool_.threads() + guests_; }

  void bind(std::span<const View> inputs, std::span<const View> outputs) {
    for (std::size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const SlotInfo& info = program_.slots[slot];
      if (info.kind == SlotInfo::Kind::kArena || info.kind == SlotInfo::Kind::kConstant) continue;
      const auto views = info.kind == SlotInfo::Kind::kInput ? inputs : outputs;
      memory_.set(static_cast<cpu::Slot>(slot),
                  views[static_cast<std::size_t>(info.external)].host());
    }
  }

  void run_step(const Step& step) {
    pool_.run(step.parts, [&](int part, int thread) { step.run(memory_, part, thread); });
  }

  // Calls run(step, part of it, thread) for the parts of all steps of a job.
  template <typename Run>
  void run_job(const Job& job, const Run& run) {
    const auto run_part = [&](int part, int thread) {
      std::size_t i = job.begin;
      for (; part >= program_.steps[i].parts; ++i) part -= program_.steps[i].parts;
      run(i, part, thread);
    };
    pool_.run(job.parts, std::cref(run_part));  // a function that holds more would allocate
  }

  // Others may help with the jobs from here on, and until retire().
  void announce() {
    if (worker_ != nullptr) worker_->running.store(this, std::memory_order_release);
  }
  void retire() {
    if (worker_ != nullptr) worker_->running.store(nullptr, std::memory_order_relaxed);
    if (profiling_) ++runs_;
  }

  void run_jobs(std::size_t begin, std::size_t end) {
    for (std::size_t job = begin; job < end; ++job) {
      if (profiling_) {
        run_job(jobs_[job], [&](std::size_t i, int part, int thread) {
          const auto start = Clock::now();
          program_.steps[i].run(memory_, part, thread);
          seconds_[static_cast<std::size_t>(thread)][i] += seconds_since(start);
        });
      } else {
        run_job(jobs_[job], [&](std::size_t i, int part, int thread) {
          program_.steps[i].run(memory_, part, thread);
        });
      }
    }
  }

  // Whether the next step is another of the same operation that writes the slot: until it has, the
  // slot may hold what lay there before.
  bool writes_again(std::size_t index, cpu::Slot slot) const {
    if (index + 1 == program_.steps.size()) return false;
    const Step &step = program_.steps[index], &next = program_.steps[index + 1];
    return next.name == step.name && std::ranges::find(next.writes, slot) != next.writes.end();
  }

  // Padding lanes hold anything; only images count.
  bool finite(cpu::Slot slot) const {
    const SlotInfo& info = program_.slots[static_cast<std::size_t>(slot)];
    if (info.dtype != DType::kF32) return true;
    const float* values = memory_.f32(slot);
    if (info.images == 0) {
      if (info.scratch) return true;
      for (std::int64_t i = 0; i < info.bytes / 4; ++i)
        if (!std::isfinite(values[i])) return false;
      return true;
    }
    for (std::int64_t n = 0; n < info.images; ++n)
      for (std::int64_t f = 0; f < info.features; ++f)
        if (!std::isfinite(
                values[((n / cpu::kLanes) * info.features + f) * cpu::kLanes + n % cpu::kLanes]))
          return false;
    return true;
  }

  const int guests_;
  ThreadPool pool_;
  Program program_;
  std::vector<Job> jobs_;
  const std::vector<std::size_t> milestones_;
  Plan plan_;
  Memory memory_;
  AlignedBytes arena_;
  WorkerState* worker_;
  bool profiling_ = false;
  std::int64_t runs_ = 0;
  std::vector<std::vector<double>> seconds_;  // by thread, guests after the pool's own, and step
};

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : HostDevice(options), workers_(static_cast<std::size_t>(options.workers)) {
    cpu::choose_vector_target();
  }
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return cat(cpu::vector_target(), " kernels", cpu::uses_amx() ? ", amx for bf16" : "");
  }

  Bf16Support bf16() override {
    Bf16Support support;
    if (cpu::uses_amx()) support.fast.push_back(Bf16Order::kAmx);
    if (cpu::adds_pairs_fast()) support.fast.push_back(Bf16Order::kVdpbf16ps);
    return support;
  }

  Plan plan(const Graph& graph, const CompileOptions& compile) override {
    return lay_out(graph, compile, options()).plan;
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& compile) override {
    Layout layout = lay_out(graph, compile, options());
    WorkerState* const worker =
        layout.guests == 0 ? nullptr : &workers_[static_cast<std::size_t>(compile.worker)];
    return std::make_unique<CpuExecutable>(std::move(layout), options().threads, worker,
                                           compile.arena_of);
  }

  void accumulate(View sum, View addend, int /*worker*/) override {
    auto* const to = reinterpret_cast<float*>(sum.host());
    const auto* const from = reinterpret_cast<const float*>(addend.host());
    const std::int64_t count = sum.bytes / static_cast<std::int64_t>(sizeof(float));
    for (int part = 0; part < cpu::flat_parts(count); ++part) cpu::add_into(count, from, to, part);
  }

  bool idle(int worker) override {
    const int count = options().workers;
    const WorkerState& own = workers_[static_cast<std::size_t>(worker)];
    for (int i = 1; i < count; ++i) {
      const int other = (worker + i) % count;
      const int guest = guest_number(count, other, worker);
      if (guest < 0) continue;
      CpuExecutable* const running =
          workers_[static_cast<std::size_t>(other)].running.load(std::memory_order_acquire);
      if (running != nullptr && running->help(guest, own)) return true;
    }
    return false;
  }

 private:
  std::vector<WorkerState> workers_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace podium
