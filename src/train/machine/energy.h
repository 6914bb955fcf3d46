// Energy used by this machine, as far as it reports it: by its processors (RAPL, through
// /sys/class/powercap) and by its NVIDIA GPUs (NVML, the driver's library, opened at run time). It
// includes all programs that run on the machine.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace podium {

class Nvml;

class EnergyMeter {
 public:
  // `root` is where the kernel has its counters; `nvml` is the name or path of the GPUs' library.
  explicit EnergyMeter(const std::filesystem::path& root = "/sys/class/powercap",
                       const std::string& nvml = "libnvidia-ml.so.1");
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  // Joules of all processors and GPUs since this meter was created; nothing if the machine does not
  // report them or this process may not read them. Counters of processors wrap around after some
  // minutes under load, so call it more often than that.
  std::optional<double> joules();

  // What reports: "processors (RAPL)", "GPUs (NVML)", both joined by "and"; empty: nothing.
  std::string of() const;

 private:
  struct Counter {
    std::filesystem::path file;
    double range = 0, last = 0;  // microjoules
  };
  std::vector<Counter> counters_;
  double microjoules_ = 0;
  std::unique_ptr<Nvml> nvml_;  // null: no GPU reports
};

}  // namespace podium
