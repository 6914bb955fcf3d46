// The needs of a run, known before it starts: the memory of each rank and worker, and the work of
// each kernel. Nothing is allocated, compiled or loaded. The code that sets up a trainer makes the
// plan on a device that only counts (backend/planning_device.h), so both agree to the byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/stop.h"
#include "parallel/exchange.h"
#include "train/loop/trainer.h"

namespace podium {

struct RunData;

// What the placement says of a device; where it leaves the number of workers open, for one.
DeviceOptions device_options(const Placement& placement);
// A device of the placement's backend; of several ranks, each calls it, since their devices may
// have to find each other.
std::unique_ptr<Device> open_for(const Placement& placement);

// The precision of a recipe on a device, which decides the order of BF16 sums where the recipe
// names none. Throws UserError(kUsage) if the device does not compute the order that it names.
Precision precision_on(Device& device, const Recipe& recipe);

// What a plan needs to know of the data: the fields of an example, and how many there are.
struct DataShape {
  std::vector<Field> fields;
  std::int64_t training = 0, held_out = 0;   // examples
  bool is_slow = false;                      // Source::is_slow() of the training set
  VisitOrder order = VisitOrder::kShuffled;  // Source::order() of it
  std::vector<std::int64_t> buckets = {};    // Source::bucket_lengths() of it
  // In memory: of each example, or, where these differ, of both sets; -1: not stated.
  std::int64_t example_bytes = 0, set_bytes = -1;
  std::int64_t bytes() const {
    return set_bytes >= 0 ? set_bytes : (training + held_out) * example_bytes;
  }
  // Of one example in a batch: all fields, and those that a network reads.
  std::int64_t row_bytes() const;
  std::int64_t input_bytes() const;
  bool operator==(const DataShape&) const = default;
};
// As the recipe and its dataset state it, and as it is. Of pictures in files as the recipe alone
// does: 0 examples or classes where it does not.
DataShape stated_shape(const Recipe& recipe);
DataShape shape_of(const Source& train, const Source& held_out);

// The data of a plan. For pictures in files, their index is made or read. If they are not found but
// the recipe states their number and that of their classes, the shape is the stated one, and `note`
// tells people so. Throws UserError(kData) if neither is known, or if the pictures are not those
// that the recipe states.
struct PlannedData {
  DataShape shape;
  std::string note;  // empty: as the data are
};
PlannedData planned_data(const Recipe& recipe, const std::string& data_dir = "");

// The kinds of memory, with names for people.
struct MemoryKind {
  const char* name;
  std::int64_t MemoryUse::*bytes;
};
inline constexpr MemoryKind kMemoryKinds[] = {
    {"parameters", &MemoryUse::parameters},
    {"statistics", &MemoryUse::statistics},
    {"carried", &MemoryUse::carried},
    {"optimizer", &MemoryUse::optimizer},
    {"gradients", &MemoryUse::gradients},
    {"exchange", &MemoryUse::exchange},
    {"training arena", &MemoryUse::training_activations},
    {"evaluation arena", &MemoryUse::evaluation_activations},
    {"batches", &MemoryUse::batches},
    {"checkpoint", &MemoryUse::checkpoint},
    {"data", &MemoryUse::data}};

// A program of a worker.
struct ProgramPlan {
  std::string name;  // "replica", "update", ...; of one name are those of each bucket
  // How often a worker runs it in a step, and for a batch of evaluation.
  std::int64_t step_runs = 0, evaluation_runs = 0;
  Plan plan;  // with what each kernel costs in one run
};

struct WorkerPlan {
  ReplicaRange replicas;
  MemoryUse memory;
  std::vector<ProgramPlan> programs;
};

struct RankPlan {
  MemoryUse shared;  // by all its workers
  std::vector<WorkerPlan> workers;
  std::int64_t evaluation_batch = 0;
  // What this process held when the plan was made: the program, its libraries, and the graphs and
  // plans of all programs. A run holds the same beside its memory().
  std::int64_t program_bytes = 0;
  MemoryUse memory() const;  // of all
  // Of the fullest of so many devices, each with memory of its own: what workers share lies on each
  // of them, and of the optimizer's state the part that its workers update.
  MemoryUse memory_of_device(int devices) const;
};

// The plan of rank `rank`, where rank r has workers[r] workers; a run of one process has one rank.
// The placement says the rest: threads, input_threads and backend. Throws as the constructor of
// Trainer does, but needs neither data nor memory nor threads.
RankPlan plan_rank(const Recipe& recipe, const Model& model, const DataShape& data,
                   const Placement& placement, const std::vector<int>& workers, int rank = 0,
                   StopToken stop = {});

// The whole step of a run of one process as one program, for the compiler of `device`
// (WholeStep::text()). Throws UserError if the step is not one program there with this placement.
std::string whole_step_text(const Recipe& recipe, const Model& model, const DataShape& data,
                            const Placement& placement, std::unique_ptr<Device> device);

}  // namespace podium
