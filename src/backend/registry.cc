// One line for each backend of this build.
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "backend/cpu/cpu_device.h"
#ifdef PODIUM_HAS_CUDA
#include "backend/cuda/cuda_device.h"
#endif
#include "backend/device.h"
#ifdef PODIUM_HAS_PJRT
#include "backend/pjrt/pjrt_device.h"
#endif
#include "backend/reference/reference_device.h"
#include "base/words.h"

namespace podium {
namespace {

struct Entry {
  std::string name;
  std::unique_ptr<Device> (*make)(const DeviceOptions& options);
};

std::mutex& mutex() {
  static std::mutex guard;
  return guard;
}

std::vector<Entry>& entries() {
  static std::vector<Entry> list = {
      {"cpu", make_cpu_device},
      {"reference", make_reference_device},
#ifdef PODIUM_HAS_CUDA
      {"cuda", cuda::make_cuda_device},
#endif
#ifdef PODIUM_HAS_PJRT
      {"pjrt", make_pjrt_device},
#endif
  };
  return list;
}

// Without a plugin, pjrt is no device of this machine; nor is cuda without a GPU.
bool is_here(const Entry& entry) {
#ifdef PODIUM_HAS_CUDA
  static const bool has_gpu = cuda::find_gpus().missing.empty();
  if (entry.name == "cuda") return has_gpu;
#endif
  const char* const plugin = std::getenv("PODIUM_PJRT_PLUGIN");
  return entry.name != "pjrt" || (plugin != nullptr && *plugin != '\0');
}

}  // namespace

std::vector<std::string> backend_names() {
  const std::scoped_lock lock(mutex());
  std::vector<std::string> names;
  for (const Entry& entry : entries())
    if (is_here(entry)) names.push_back(entry.name);
  return names;
}

std::vector<MissingPart> missing_backends() {
  std::vector<MissingPart> missing;
#ifndef PODIUM_HAS_CUDA
  missing.push_back({"cuda", "NVIDIA GPUs",
                     "install NVIDIA's CUDA toolkit, whose nvcc must be on the PATH, and run "
                     "scripts/build.sh"});
#endif
#ifndef PODIUM_HAS_PJRT
  missing.push_back({"pjrt", "TPUs and other devices with a PJRT plugin",
                     "scripts/install-dependencies.sh pjrt-header && scripts/build.sh"});
#endif
  return missing;
}

std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options) {
  auto* make = entries().front().make;
  if (!name.empty()) {
    const std::scoped_lock lock(mutex());
    const auto found = std::ranges::find(entries(), name, &Entry::name);
    make = found == entries().end() ? nullptr : found->make;
  }
  if (make == nullptr) {
    const std::vector<MissingPart> missing = missing_backends();
    const auto part = std::ranges::find(missing, name, &MissingPart::name);
    throw UserError(cat("--backend ", name, ": no such backend; this build has ",
                        join_words(backend_names()),
                        part == missing.end() ? "" : "; to add it: " + part->remedy));
  }
  PODIUM_REQUIRE(options.gpus.empty() || name.starts_with("cuda"), ExitCode::kUsage,
                 "--gpus chooses among NVIDIA GPUs, and --backend ",
                 name.empty() ? entries().front().name : name,
                 " computes on none; leave --gpus out, or add --backend cuda");
  return make(options);
}

void register_backend(const std::string& name,
                      std::unique_ptr<Device> (*make)(const DeviceOptions& options)) {
  const std::scoped_lock lock(mutex());
  std::erase_if(entries(), [&](const Entry& entry) { return entry.name == name; });
  entries().push_back({name, make});
}

}  // namespace podium
