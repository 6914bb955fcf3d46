// Energy used by the processors of this machine, if the system reports it (RAPL through
// /sys/class/powercap). It includes all programs that run on the machine.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace podium {

class EnergyMeter {
 public:
  // `root` is where the kernel has its counters.
  explicit EnergyMeter(const std::filesystem::path& root = "/sys/class/powercap");

  // Joules of all processors since this meter was created; nothing if the machine does not report
  // them or this process may not read them. Counters wrap around after some minutes under load, so
  // call it more often than that.
  std::optional<double> joules();

 private:
  struct Counter {
    std::filesystem::path file;
    double range = 0, last = 0;  // microjoules
  };
  std::vector<Counter> counters_;
  double microjoules_ = 0;
};

}  // namespace podium
