// podium devices: what this machine can compute on.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/kernels/targets.h"
#include "backend/device.h"
#ifdef PODIUM_HAS_CUDA
#include "backend/cuda/cuda_device.h"
#endif
#ifdef PODIUM_HAS_PJRT
#include "backend/pjrt/plugin.h"
#endif
#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "files/byte_text.h"
#include "parallel/ranks.h"
#include "train/machine/environment.h"
#include "train/machine/memory.h"
#include "train/run/run.h"

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

// The orders in which the CPU adds BF16 products.
struct Orders {
  std::vector<std::string> fast, slow;
};
Orders bf16_orders() {
  const Bf16Support support = make_device("cpu")->bf16();
  Orders orders;
  for (const Bf16Order order : support.orders) {
    const bool fast = std::ranges::find(support.fast, order) != support.fast.end();
    (fast ? orders.fast : orders.slow).emplace_back(name_of(order));
  }
  return orders;
}
std::string bf16_text(const Orders& orders) {
  const std::string slow = join_words(orders.slow);
  if (orders.fast.empty()) return cat(slow, ", each exactly but slowly");
  return cat(join_words(orders.fast), " about as fast as FP32, or faster",
             slow.empty() ? "" : cat("; ", slow, " exactly but slowly"));
}

#ifdef PODIUM_HAS_PJRT
// Null where the environment names no plugin.
nlohmann::ordered_json pjrt_json() {
  const std::vector<std::string> names = backend_names();
  if (std::ranges::find(names, "pjrt") == names.end()) return nullptr;
  const pjrt::PluginFacts facts = pjrt::Plugin::from_environment()->facts();
  nlohmann::ordered_json json = {{"plugin", facts.path},
                                 {"api", cat(facts.api_major, ".", facts.api_minor)},
                                 {"platform", facts.platform},
                                 {"version", facts.version},
                                 {"devices", nlohmann::ordered_json::array()}};
  for (const pjrt::DeviceFacts& device : facts.devices)
    json["devices"].push_back({{"kind", device.kind}, {"memory_bytes", device.memory_bytes}});
  return json;
}

std::string pjrt_text(const nlohmann::ordered_json& json) {
  std::string text = cat("pjrt            ", json["plugin"].get<std::string>(), ", PJRT API ",
                         json["api"].get<std::string>(), "\n                platform ",
                         json["platform"].get<std::string>(), "\n");
  int number = 0;
  for (const auto& device : json["devices"]) {
    const auto bytes = device["memory_bytes"].get<std::int64_t>();
    text += cat("                device ", number++, ": ", device["kind"].get<std::string>(), ", ",
                bytes == 0 ? "memory unknown" : format_bytes(bytes), "\n");
  }
  return text;
}
#else
nlohmann::ordered_json pjrt_json() { return nullptr; }
std::string pjrt_text(const nlohmann::ordered_json&) { return ""; }
#endif

#ifdef PODIUM_HAS_CUDA
nlohmann::ordered_json cuda_json() {
  const cuda::Gpus gpus = cuda::find_gpus();
  nlohmann::ordered_json json = {{"versions", gpus.versions},
                                 {"missing", gpus.missing},
                                 {"devices", nlohmann::ordered_json::array()}};
  for (const cuda::Gpu& gpu : gpus.list)
    json["devices"].push_back({{"name", gpu.name},
                               {"compute_capability", gpu.compute_capability},
                               {"bf16_order", gpu.bf16_order},
                               {"memory_bytes", gpu.memory_bytes}});
  return json;
}

std::string cuda_text(const nlohmann::ordered_json& json) {
  std::string text = cat("cuda            ", json["versions"].get<std::string>(), "\n");
  if (const auto missing = json["missing"].get<std::string>(); !missing.empty())
    text += cat("                ", missing, "\n");
  int number = 0;
  for (const auto& device : json["devices"])
    text += cat("                GPU ", number++, ": ", device["name"].get<std::string>(),
                ", compute capability ", device["compute_capability"].get<std::string>(), ", ",
                device["bf16_order"].get<std::string>().empty()
                    ? ""
                    : cat("bf16_order ", device["bf16_order"].get<std::string>(), ", "),
                format_bytes(device["memory_bytes"].get<std::int64_t>()), "\n");
  return text;
}
#else
nlohmann::ordered_json cuda_json() { return nullptr; }
std::string cuda_text(const nlohmann::ordered_json&) { return ""; }
#endif

// What may be built and is not.
std::vector<MissingPart> missing_parts() {
  std::vector<MissingPart> missing = missing_backends();
  if (mpi_library().empty())
    missing.push_back({"mpi", "runs of several processes and hosts",
                       "scripts/install-dependencies.sh mpi && scripts/build.sh"});
  return missing;
}

ExitCode show_devices(bool as_json) {
  const nlohmann::ordered_json cuda = cuda_json();
  const nlohmann::ordered_json pjrt = pjrt_json();
  const Environment e = collect_environment({}, cpu::vector_target(), 0);
  const Orders orders = bf16_orders();
  if (as_json) {
    nlohmann::ordered_json json = {{"cpu", e.cpu},
                                   {"cores", e.cores},
                                   {"usable_cores", e.usable_cores},
                                   {"vector_targets", cpu::vector_targets()},
                                   {"vector_target", e.vector_target},
                                   {"bf16_orders", {{"fast", orders.fast}, {"slow", orders.slow}}},
                                   {"backends", backend_names()},
                                   {"memory_bytes", e.memory_bytes},
                                   {"memory_limit_bytes", e.memory_limit_bytes}};
    if (!cuda.is_null()) json["cuda"] = cuda;
    if (!pjrt.is_null()) json["pjrt"] = pjrt;
    json["not_built"] = nlohmann::ordered_json::array();
    for (const MissingPart& part : missing_parts())
      json["not_built"].push_back({{"name", part.name}, {"remedy", part.remedy}});
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
            << "bf16 orders     " << bf16_text(orders) << " (bf16_order)\n"
            << "backends        " << join_words(backend_names()) << " (--backend)\n"
            << (cuda.is_null() ? "" : cuda_text(cuda)) << (pjrt.is_null() ? "" : pjrt_text(pjrt));
  const char* head = "not built       ";
  for (const MissingPart& part : missing_parts()) {
    std::cout << head << part.name << ", for " << part.serves << "; to add it: " << part.remedy
              << "\n";
    head = "                ";
  }
  std::cout << "caches          ";
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

#ifdef PODIUM_HAS_CUDA
ExitCode probe_tensor_cores() {
  constexpr std::int64_t kSums = 25'000'000;  // of four products of 16 terms each
  bool differs = false;
  for (const cuda::ProbedGpu& gpu : cuda::probe_gpus(kSums)) {
    std::cout << gpu.name << ": "
              << (gpu.bf16_order.empty()
                      ? "no tensor cores for BF16"
                      : cat(gpu.differences, " of ", gpu.sums,
                            " chains of four products differ from ", "the order ", gpu.bf16_order))
              << "\n";
    if (gpu.warpgroup_sums != 0)
      std::cout << gpu.name << ": " << gpu.warpgroup_differences << " of " << gpu.warpgroup_sums
                << " sums of warpgroups (wgmma) differ from those of warps (mma.sync)\n";
    differs = differs || gpu.differences != 0 || gpu.warpgroup_differences != 0;
  }
  return differs ? ExitCode::kDifferent : ExitCode::kDone;
}
#else
ExitCode probe_tensor_cores() { return ExitCode::kDone; }  // nobody can ask for it
#endif

}  // namespace

void add_devices_command(CLI::App& app, CommandLine& line) {
  auto json = std::make_shared<bool>(false), probe = std::make_shared<bool>(false);
  CLI::App* command =
      add_command(app, line, "devices", "Shows the processor, memory and backends of this machine",
                  {"podium devices", "PODIUM_VECTOR_TARGET=avx2 podium devices --json"},
                  [json, probe] { return *probe ? probe_tensor_cores() : show_devices(*json); });
  command->add_flag("--json", *json, "Write JSON");
#ifdef PODIUM_HAS_CUDA
  command->add_flag("--probe", *probe,
                    "Compare what the tensor cores of each GPU make of 10^8 random products of "
                    "BF16 matrices' rows and columns with the rule of their order");
#endif
}

}  // namespace podium
