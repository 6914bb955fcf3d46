// Training: run() with the interpreter free for other threads, and callbacks into Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/numerics/hash.h"
#include "module.h"
#include "nn/models.h"
#include "report/run_reports.h"
#include "store/local_copy.h"
#include "train/recipe/recipe.h"
#include "train/run/run.h"
#include "train/run/stored_run.h"

namespace nb = nanobind;

namespace podium::python {
namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may write it");

extern "C" void note_stop(int signal) {
  const int error = errno;
  stop_signal.store(signal);
  struct sigaction end = {};
  end.sa_handler = SIG_DFL;
  if (signal == SIGINT) sigaction(SIGINT, &end, nullptr);
  constexpr std::string_view kText =
      "stopping: the run saves after the current step. Ctrl-C again ends the process at once, "
      "without saving\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  errno = error;
}

// While it lives, SIGINT and SIGTERM ask the run to save and stop. Python's own handlers would wait
// for the interpreter, which waits for the run.
class StopSignals {
 public:
  StopSignals() {
    stop_signal = 0;
    struct sigaction action = {};
    action.sa_handler = note_stop;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
    // As a shell's background jobs have it.
    if (interrupt_.sa_handler == SIG_IGN) sigaction(SIGINT, &interrupt_, nullptr);
    stop_copies_at(&stop_signal);
  }
  ~StopSignals() {
    stop_copies_at(nullptr);
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct sigaction interrupt_ = {}, terminate_ = {};
};

nb::dict dict_of(const std::vector<MetricValue>& metrics) {
  nb::dict dict;
  for (const MetricValue& metric : metrics) dict[metric.name.c_str()] = metric.value;
  return dict;
}

nb::object evaluation_of(const EvaluationResult& result) {
  if (result.sums.examples == 0) return nb::none();
  nb::dict dict = dict_of(result.metrics);
  dict["step"] = result.step;
  dict["loss"] = result.sums.loss;
  return dict;
}

// Calls Python's functions, which may raise: the run then ends with their exception.
class Callbacks : public RunObserver {
 public:
  Callbacks(nb::object on_metrics, nb::object on_evaluation, nb::object on_warning)
      : on_metrics_(std::move(on_metrics)),
        on_evaluation_(std::move(on_evaluation)),
        on_warning_(std::move(on_warning)) {}

  void measured(const RunMetrics& metrics) override {
    const nb::gil_scoped_acquire python;
    if (on_metrics_.is_none()) return;
    nb::dict dict = dict_of(metrics.metrics);
    dict["step"] = metrics.step;
    dict["loss"] = metrics.loss;
    dict["learning_rate"] = metrics.learning_rate;
    dict["steps_per_second"] = metrics.steps_per_second;
    dict["items_per_second"] = metrics.items_per_second;
    on_metrics_(dict);
  }
  void evaluated(const Trainer&, const EvaluationResult& result) override {
    const nb::gil_scoped_acquire python;
    if (on_evaluation_.is_none()) return;
    const nb::object answer = on_evaluation_(evaluation_of(result));
    ends_ = ends_ || answer.is(nb::handle(Py_True));
  }
  bool ends_run(const Trainer&) override { return ends_; }
  void warning(const std::string& text) override {
    const nb::gil_scoped_acquire python;
    on_warning_(text);
  }

 private:
  nb::object on_metrics_, on_evaluation_, on_warning_;
  bool ends_ = false;
};

nb::dict dict_of(const RunResult& result) {
  nb::dict dict;
  dict["steps"] = result.steps;
  dict["total_steps"] = result.total_steps;
  dict["epochs"] = result.epochs;
  dict["stopped"] = result.stopped;
  dict["train_loss"] = result.train_loss;
  dict["evaluation"] = evaluation_of(result.evaluation);
  dict["best_step"] = result.best_step;
  dict["parameter_hash"] = hash_text(result.parameter_hash);
  dict["train_seconds"] = result.train_seconds;
  dict["peak_memory_bytes"] = result.peak_memory_bytes;
  return dict;
}

// `recipe` is TOML, resolved. Returns what the run did, its folder on this machine, and the signal
// that stopped it, or 0.
nb::tuple train(const std::string& recipe, const std::string& name, const std::string& out,
                const std::vector<Data>& data, const std::string& data_dir, std::int64_t workers,
                int threads, int input_threads, const std::string& backend,
                const std::vector<int>& gpus, const std::string& mlflow,
                const std::string& prometheus, std::int64_t steps, std::int64_t epochs, bool fresh,
                bool catch_signals, nb::object on_metrics, nb::object on_evaluation,
                nb::object on_warning) {
  Recipe parsed = parse_recipe(recipe, name);
  parsed.name = name;
  RunOptions options;
  options.data_dir = data_dir;
  options.placement = {.workers = workers,
                       .threads = threads,
                       .input_threads = input_threads,
                       .backend = backend,
                       .gpus = gpus};
  options.stop_steps = steps;
  options.stop_epochs = epochs;
  options.fresh = fresh;
  options.command_line = {"podium.train"};
  if (!data.empty()) options.data = {data.at(0).source, data.at(1).source};
  Callbacks callbacks(std::move(on_metrics), std::move(on_evaluation), std::move(on_warning));

  RunResult result;
  int signal = 0;
  {
    const nb::gil_scoped_release python;
    std::optional<StopSignals> signals;
    if (catch_signals) {
      signals.emplace();
      options.stop_request = &stop_signal;
    }
    train_into(out, [&](const std::filesystem::path& folder, RunObserver& publisher) {
      options.out = folder;
      RunReports reports(folder, {.mlflow = mlflow, .prometheus = prometheus});
      Observers all{&reports, &callbacks, &publisher};
      result = run(parsed, model_of(parsed), options, all);
      reports.finish(result);
    });
    if (catch_signals) signal = stop_signal;
  }
  return nb::make_tuple(dict_of(result), options.out.string(), signal);
}

}  // namespace

void add_training(nb::module_& module) {
  module.def("train", train, nb::arg("recipe"), nb::arg("name"), nb::arg("out"), nb::arg("data"),
             nb::arg("data_dir"), nb::arg("workers"), nb::arg("threads"), nb::arg("input_threads"),
             nb::arg("backend"), nb::arg("gpus"), nb::arg("mlflow"), nb::arg("prometheus"),
             nb::arg("steps"), nb::arg("epochs"), nb::arg("fresh"), nb::arg("catch_signals"),
             nb::arg("on_metrics").none(), nb::arg("on_evaluation").none(), nb::arg("on_warning"));
}

}  // namespace podium::python
