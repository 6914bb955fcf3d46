// podium report: a run as one HTML page.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/file_io.h"
#include "report/pages/example_pictures.h"
#include "report/pages/run_page.h"
#include "train/predict/predictor.h"
#include "train/run/run.h"

namespace podium {
namespace {

struct ReportArguments {
  std::string run, out, data_dir;
  Placement placement;
  bool pictures = false, open = false, force = false;
};

void open_page(const std::string& file) {
  std::string program = "xdg-open", path = file;
  char* arguments[] = {program.data(), path.data(), nullptr};
  pid_t process = 0;
  int status = 0;
  const bool started =
      posix_spawnp(&process, program.c_str(), nullptr, nullptr, arguments, environ) == 0 &&
      waitpid(process, &status, 0) == process && status == 0;
  if (!started) warn(cat("no browser could be opened by xdg-open; the page is ", file));
}

// Whether the page that the run itself wrote at its end is as new as its other files. It has the
// examples and the confusion matrix of the last evaluation, which a new one would lack.
bool is_current(const std::string& page, const std::string& run) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto written = fs::last_write_time(page, error);
  if (error) return false;
  for (const char* file : {"metrics.jsonl", "environment.json", "recipe.toml"}) {
    const auto changed = fs::last_write_time(fs::path(run) / file, error);
    if (!error && changed > written) return false;
  }
  const auto text = read_text(page);
  return text && text->find("<meta http-equiv=\"refresh\"") == std::string::npos;
}

ExitCode report(const ReportArguments& arguments) {
  RunPage page = read_run_page(arguments.run);
  std::string out = arguments.out;
  if (out.empty()) {
    out = arguments.run + "/report.html";
    if (!arguments.pictures && is_current(out, arguments.run)) {
      std::cout << printable(out) << "\n";
      if (arguments.open) open_page(out);
      return ExitCode::kDone;
    }
  } else {
    require_writable(out, "--out", arguments.force);
  }
  if (arguments.pictures) {
    LoadedRun loaded = load_run(arguments.run, arguments.data_dir, arguments.placement);
    page.confusion = loaded.trainer->evaluate().confusion;
    page.confusion_step = loaded.trainer->steps_done();
    page.class_names = class_names_of(*loaded.trainer);
    Predictor predictor = Predictor::load(arguments.run, {}, arguments.placement);
    const RunData data = load_data(page.history.recipe, arguments.data_dir);
    show_predicted(page, predictor, *data.held_out);
  }
  replace_text(out, run_page(page));
  std::cout << printable(out) << "\n";
  if (arguments.open) open_page(out);
  return ExitCode::kDone;
}

}  // namespace

void add_report_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      add_command(app, line, "report", "Writes a run as one HTML page, RUN/report.html",
                  {"podium report runs/mnist-seed0 --open",
                   "podium report runs/mnist-seed0 --pictures --out mnist.html"},
                  [arguments] { return report(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("--out", arguments->out, "HTML file; default: RUN/report.html");
  command->add_flag("--pictures", arguments->pictures,
                    "Evaluate the last checkpoint, and show the confusion matrix, examples with "
                    "predictions and the most confident mistakes");
  command->add_flag("--open", arguments->open, "Show it in a browser");
  add_placement_flags(*command, arguments->placement);
  add_data_dir_flag(*command, arguments->data_dir);
  add_force_flag(*command, arguments->force);
}

}  // namespace podium
