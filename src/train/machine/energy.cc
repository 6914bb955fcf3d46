#include "train/machine/energy.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

namespace podium {
namespace {

std::optional<double> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  double value = 0;
  if (in >> value && value >= 0) return value;
  return std::nullopt;
}

}  // namespace

// The few functions of NVML that are needed; all return 0 for success. Counters of energy exist
// from the Volta generation on.
class Nvml {
 public:
  // Null if there is no such library, or no GPU that counts its energy.
  static std::unique_ptr<Nvml> open(const std::string& library) {
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    std::unique_ptr<Nvml> nvml(new Nvml(handle));
    if (!nvml->find_gpus()) return nullptr;
    return nvml;
  }
  ~Nvml() {
    if (shutdown_ != nullptr) shutdown_();
    ::dlclose(handle_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Since this object was made; nothing if one of the GPUs no longer answers.
  std::optional<double> millijoules() const {
    double sum = 0;
    for (const Gpu& gpu : gpus_) {
      unsigned long long now = 0;
      if (energy_(gpu.device, &now) != 0 || now < gpu.first) return std::nullopt;
      sum += static_cast<double>(now - gpu.first);
    }
    return sum;
  }

 private:
  using Device = void*;  // opaque
  struct Gpu {
    Device device;
    unsigned long long first;  // millijoules since the driver was loaded
  };

  explicit Nvml(void* handle) : handle_(handle) {}

  template <typename Function>
  bool find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    return function != nullptr;
  }

  bool find_gpus() {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*device_at)(unsigned, Device*) = nullptr;
    if (!find(init, "nvmlInit_v2") || !find(shutdown, "nvmlShutdown") ||
        !find(count, "nvmlDeviceGetCount_v2") ||
        !find(device_at, "nvmlDeviceGetHandleByIndex_v2") ||
        !find(energy_, "nvmlDeviceGetTotalEnergyConsumption") || init() != 0)
      return false;
    shutdown_ = shutdown;
    unsigned gpus = 0;
    if (count(&gpus) != 0) return false;
    for (unsigned i = 0; i < gpus; ++i) {
      Device device = nullptr;
      unsigned long long now = 0;
      if (device_at(i, &device) == 0 && energy_(device, &now) == 0) gpus_.push_back({device, now});
    }
    return !gpus_.empty();
  }

  void* const handle_;
  int (*shutdown_)() = nullptr;
  int (*energy_)(Device, unsigned long long*) = nullptr;
  std::vector<Gpu> gpus_;
};

EnergyMeter::EnergyMeter(const std::filesystem::path& root, const std::string& nvml)
    : nvml_(Nvml::open(nvml)) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    // "intel-rapl:0" is a package; "intel-rapl:0:0" is a part of one, and counted in it.
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("intel-rapl:") || name.find(':') != name.rfind(':')) continue;
    const std::filesystem::path file = entry->path() / "energy_uj";
    const auto now = number_in(file);
    if (now)
      counters_.push_back(
          {file, number_in(entry->path() / "max_energy_range_uj").value_or(0), *now});
  }
}

EnergyMeter::~EnergyMeter() = default;

std::optional<double> EnergyMeter::joules() {
  if (counters_.empty() && !nvml_) return std::nullopt;
  for (Counter& counter : counters_) {
    const auto now = number_in(counter.file);
    if (!now) return std::nullopt;
    microjoules_ += *now - counter.last + (*now < counter.last ? counter.range : 0);
    counter.last = *now;
  }
  const std::optional<double> of_gpus = nvml_ ? nvml_->millijoules() : 0.0;
  if (!of_gpus) return std::nullopt;
  return microjoules_ / 1e6 + *of_gpus / 1e3;
}

std::string EnergyMeter::of() const {
  std::string text = counters_.empty() ? "" : "processors (RAPL)";
  if (nvml_) text += text.empty() ? "GPUs (NVML)" : " and GPUs (NVML)";
  return text;
}

}  // namespace podium
