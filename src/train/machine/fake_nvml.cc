// A library with the functions of NVML that train/machine/energy.cc calls, for its test. Counters
// are the numbers in the file that $FAKE_NVML names, one for each GPU; -1: a GPU that does not
// count.
#include <cstdlib>
#include <fstream>
#include <vector>

namespace {

constexpr int kDone = 0, kNoDriver = 9, kNotSupported = 3;

std::vector<long long> counters() {
  const char* const file = std::getenv("FAKE_NVML");
  std::ifstream in(file == nullptr ? "" : file);
  std::vector<long long> numbers;
  for (long long number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules);

int nvmlInit_v2() { return std::getenv("FAKE_NVML") == nullptr ? kNoDriver : kDone; }
int nvmlShutdown() { return kDone; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(counters().size());
  return kDone;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static unsigned char devices[64];
  *device = devices + index;
  devices[index] = static_cast<unsigned char>(index);
  return kDone;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const auto index = std::size_t{*static_cast<const unsigned char*>(device)};
  const std::vector<long long> all = counters();
  if (index >= all.size() || all[index] < 0) return kNotSupported;
  *millijoules = static_cast<unsigned long long>(all[index]);
  return kDone;
}

// NOLINTEND(readability-identifier-naming)

}  // extern "C"
