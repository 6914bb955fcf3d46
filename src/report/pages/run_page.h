// A run as one self-contained HTML page: settings, curves, speed, waiting, memory, cost, confusion
// matrix, examples, environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/task_words.h"
#include "report/history.h"
#include "report/operation_times.h"
#include "report/starts.h"
#include "train/loop/trainer.h"

namespace podium {

// What the page shows of an example.
struct PageFigure {
  std::vector<std::uint8_t> png;
  std::string caption;
  bool mistaken = false;
  std::int64_t width = 96;  // on the page
};

struct RunPage {
  RunHistory history;
  std::vector<RunStart> starts;
  TaskWords words;
  std::string resolved;                      // as resolved.txt has it
  std::optional<ConfusionMatrix> confusion;  // of the evaluation after `confusion_step`
  std::int64_t confusion_step = 0;
  std::vector<std::string> class_names;  // by number; missing ones are numbers
  std::vector<PageFigure> examples, mistakes;
  std::vector<ShownTranslation> translations;  // of the last evaluation
  std::optional<OperationTimes> operations;
  std::string failure;   // of the last start; empty: none
  bool goes_on = false;  // the run is in progress: the browser reloads the page
};

std::string run_page(const RunPage& page);

// Reads all but confusion and examples from a run's folder. Throws UserError as read_history()
// does.
RunPage read_run_page(const std::filesystem::path& run);

}  // namespace podium
