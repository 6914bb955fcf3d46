#include "cli/placement_flags.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "backend/device.h"
#include "base/words.h"
#include "files/byte_text.h"

namespace podium {

void add_placement_flags(CLI::App& command, Placement& placement) {
  command
      .add_option("--workers", placement.workers,
                  "Number of workers, 1 to the recipe's replicas; default: the smaller of replicas "
                  "and cores, or devices of --backend cuda and pjrt")
      ->check(at_least(1), "POSITIVE");
  command.add_option("--threads", placement.threads, "Threads per worker; default: 1")
      ->check(at_least(1, std::numeric_limits<int>::max()), "POSITIVE");
  command.add_option("--backend", placement.backend,
                     "Backend, one of " + join_words(backend_names()) + "; default: the first");
  command
      .add_option(
          "--gpus", placement.gpus,
          "Numbers of the GPUs to use, as in 0,2, with --backend cuda; default: all of them, "
          "or one for each rank of a host that has several ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(at_least(0, std::numeric_limits<int>::max()), "NONNEGATIVE");
}

void add_input_flags(CLI::App& command, Placement& placement) {
  command
      .add_option("--input-threads", placement.input_threads,
                  "Threads that prepare batches in advance, for cores without a worker; default: "
                  "each worker prepares its own; where a GPU computes, up to 8 cores do, or all "
                  "where examples are slow to read")
      ->check(at_least(0, std::numeric_limits<int>::max()), "NONNEGATIVE");
  command
      .add_option_function<std::string>(
          "--keep-decoded",
          [&placement](const std::string& text) { placement.keep_decoded = parse_bytes(text); },
          "Memory, as in 64GiB, for examples that are decoded when they are read, so that they are "
          "in the first epoch alone; those that come first are kept; default: none")
      ->type_name("SIZE");
}

void add_data_dir_flag(CLI::App& command, std::string& data_dir) {
  command.add_option(
      "--data-dir", data_dir,
      "Folder with the data files, searched first; then $PODIUM_DATA, ../shared/data, the user's "
      "cache folder. A relative path of data in files is looked up in it before the current "
      "folder");
}

}  // namespace podium
