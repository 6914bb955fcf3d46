#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "backend/cpu/jobs.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/targets.h"
#include "backend/cpu/kernels/update.h"
#include "backend/cpu/lowering.h"
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

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const Graph& graph, const CompileOptions& options)
      : guests_(options.guests),
        pool_(options.threads),
        program_(lower(graph, options)),
        jobs_(cpu::jobs_of(program_, options.threads + options.guests)),
        memory_(program_.slots.size()) {
    place();
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    bind(inputs, outputs);
    if (profiling_) {
      run_profiled();
    } else {
      for (const Job& job : jobs_) {
        run_job(job, [&](std::size_t i, int part, int thread) {
          program_.steps[i].run(memory_, part, thread);
        });
      }
    }
  }

  bool help(int guest, const Executable& own) override {
    if (guest >= guests_) return false;
    // What lies here for a guest's scratch is seldom used, and then far away. Written once only:
    // the line is one that other threads read.
    const auto& other = static_cast<const CpuExecutable&>(own);
    const int thread = pool_.threads() + guest;
    if (other.program_.scratch_floats >= program_.scratch_floats &&
        memory_.scratch(thread) != other.memory_.scratch(0))
      memory_.set_scratch(thread, other.memory_.scratch(0));
    return pool_.help(guest);
  }

  std::int64_t arena_bytes() const override { return static_cast<std::int64_t>(arena_.size()); }

  std::optional<std::string> find_non_finite(std::span<const void* const> inputs,
                                             std::span<void* const> outputs) override {
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

  std::vector<KernelProfile> profile() const override {
    std::vector<KernelProfile> rows;
    for (std::size_t i = 0; profiling_ && i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      const auto runs = static_cast<double>(runs_);
      KernelProfile& row = rows.emplace_back(
          KernelProfile{step.name, 0, step.cost.flops * runs, step.cost.bytes * runs, runs_});
      for (const std::vector<double>& of_thread : seconds_) row.seconds += of_thread[i];
    }
    return rows;
  }

 private:
  static Program lower(const Graph& graph, const CompileOptions& options) {
    const Graph prepared = options.fuse ? fuse(graph) : without_dead_nodes(graph);
    prepared.verify();
    return cpu::Lowering(prepared, options).run();
  }

  // The pool's own and guests: a part may run on any.
  int all_threads() const { return pool_.threads() + guests_; }

  void place() {
    std::vector<cpu::Slot> slots;
    for (std::size_t slot = 0; slot < program_.slots.size(); ++slot)
      if (program_.slots[slot].kind == SlotInfo::Kind::kArena)
        slots.push_back(static_cast<cpu::Slot>(slot));
    const MemoryPlan plan = plan_memory(cpu::lifetimes_of(program_, jobs_, slots));
    const auto scratch =
        static_cast<std::int64_t>(sizeof(float)) * program_.scratch_floats * all_threads();
    arena_ = AlignedBytes(static_cast<std::size_t>(scratch + plan.bytes));
    for (int thread = 0; thread < all_threads(); ++thread)
      memory_.set_scratch(
          thread, reinterpret_cast<float*>(arena_.data()) + thread * program_.scratch_floats);
    for (std::size_t i = 0; i < slots.size(); ++i)
      memory_.set(slots[i], arena_.data() + scratch + plan.offsets[i]);
  }

  void bind(std::span<const void* const> inputs, std::span<void* const> outputs) {
    for (std::size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const SlotInfo& info = program_.slots[slot];
      if (info.kind == SlotInfo::Kind::kInput) {
        // Kernels that read a program input never write it, but for updates, whose output is bound
        // to the same memory.
        memory_.set(static_cast<cpu::Slot>(slot),
                    const_cast<void*>(inputs[static_cast<std::size_t>(info.external)]));
      } else if (info.kind == SlotInfo::Kind::kOutput) {
        memory_.set(static_cast<cpu::Slot>(slot), outputs[static_cast<std::size_t>(info.external)]);
      }
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

  void run_profiled() {
    for (const Job& job : jobs_) {
      run_job(job, [&](std::size_t i, int part, int thread) {
        const auto start = Clock::now();
        program_.steps[i].run(memory_, part, thread);
        seconds_[static_cast<std::size_t>(thread)][i] += seconds_since(start);
      });
    }
    ++runs_;
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
  Memory memory_;
  AlignedBytes arena_;
  bool profiling_ = false;
  std::int64_t runs_ = 0;
  std::vector<std::vector<double>> seconds_;  // by thread, guests after the pool's own, and step
};

class CpuBackend : public Backend {
 public:
  CpuBackend() { cpu::choose_vector_target(); }
  std::string name() const override { return "cpu"; }
  std::string description() const override { return cpu::vector_target() + " kernels"; }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) override {
    return std::make_unique<CpuExecutable>(graph, options);
  }
  void accumulate(std::span<float> sum, std::span<const float> addend) override {
    const auto count = static_cast<std::int64_t>(sum.size());
    for (int part = 0; part < cpu::flat_parts(count); ++part)
      cpu::add_into(count, addend.data(), sum.data(), part);
  }
  float sum_of_squares(std::span<const float> run) override {
    float sum = 0;
    cpu::squares(std::ssize(run), run.data(), &sum, 0);
    return sum;
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace podium
