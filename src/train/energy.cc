#include "train/energy.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

namespace podium {
namespace {

std::optional<double> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  double value = 0;
  if (in >> value && value >= 0) return value;
  return std::nullopt;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::filesystem::path& root) {
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

std::optional<double> EnergyMeter::joules() {
  if (counters_.empty()) return std::nullopt;
  for (Counter& counter : counters_) {
    const auto now = number_in(counter.file);
    if (!now) return std::nullopt;
    microjoules_ += *now - counter.last + (*now < counter.last ? counter.range : 0);
    counter.last = *now;
  }
  return microjoules_ / 1e6;
}

}  // namespace podium
