// podium devices: what this machine can compute on.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "backend/cpu/kernels/targets.h"
#include "backend/device.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "train/environment.h"
#include "train/memory.h"
#include "train/run.h"

namespace podium {
namespace {

struct Cache {
  const char* name;
  const char* key;
  std::int64_t bytes;
};

// Zero where the system does not say.
std::vector<Cache> caches() {
  const auto size = [](int name) { return std::max<std::int64_t>(sysconf(name), 0); };
  return {{"L1 data", "l1_data", size(_SC_LEVEL1_DCACHE_SIZE)},
          {"L2", "l2", size(_SC_LEVEL2_CACHE_SIZE)},
          {"L3", "l3", size(_SC_LEVEL3_CACHE_SIZE)}};
}

ExitCode show_devices(bool as_json) {
  const Environment e = collect_environment({}, cpu::vector_target(), 0);
  if (as_json) {
    nlohmann::ordered_json json = {{"cpu", e.cpu},
                                   {"cores", e.cores},
                                   {"usable_cores", e.usable_cores},
                                   {"vector_targets", cpu::vector_targets()},
                                   {"vector_target", e.vector_target},
                                   {"backends", backend_names()},
                                   {"memory_bytes", e.memory_bytes},
                                   {"memory_limit_bytes", e.memory_limit_bytes}};
    for (const Cache& cache : caches()) json["cache_bytes"][cache.key] = cache.bytes;
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << "cpu             " << e.cpu << "\n"
            << "cores           " << e.usable_cores
            << (e.usable_cores == e.cores ? "" : cat(" usable of ", e.cores)) << "\n"
            << "vector targets  " << join_words(cpu::vector_targets())
            << " (in use: " << e.vector_target
            << "; $PODIUM_VECTOR_TARGET selects another, with the same bits)\n"
            << "backends        " << join_words(backend_names()) << " (--backend)\n"
            << "caches          ";
  const char* separator = "";
  for (const Cache& cache : caches()) {
    if (cache.bytes == 0) continue;
    std::cout << separator << cache.name << " " << format_bytes(cache.bytes);
    separator = ", ";
  }
  std::cout << (*separator == '\0' ? "unknown" : "") << "\n"
            << "memory          " << format_bytes(e.memory_bytes);
  if (e.memory_limit_bytes != 0) {
    std::cout << "; this container may use " << format_bytes(e.memory_limit_bytes);
  }
  std::cout << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_devices_command(CLI::App& app, CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      add_command(app, line, "devices", "Shows the processor, memory and backends of this machine",
                  {"podium devices", "PODIUM_VECTOR_TARGET=avx2 podium devices --json"},
                  [json] { return show_devices(*json); });
  command->add_flag("--json", *json, "Write JSON");
}

}  // namespace podium
