// Energy that the processors of this machine took, where the system tells it (RAPL through
// /sys/class/powercap). It is of the whole machine: what else runs there is in it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace podium {

class EnergyMeter {
 public:
  // `root` is where the kernel has its counters.
  explicit EnergyMeter(const std::filesystem::path& root = "/sys/class/powercap");

  // Joules of all processors since this meter was made; nothing where the machine does not tell or
  // this process may not read it. Counters wrap around after some minutes under load: ask more
  // often than that.
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
