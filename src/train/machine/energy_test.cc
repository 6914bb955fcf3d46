#include "train/machine/energy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

void set_counter(const fs::path& folder, const char* file, long long value) {
  fs::create_directories(folder);
  std::ofstream(folder / file) << value << "\n";
}

TEST(Energy, sums_packages_and_leaves_out_their_parts) {
  const TestFolder folder;
  const fs::path& root = folder.path();
  for (const char* name : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"}) {
    set_counter(root / name, "energy_uj", 1'000'000);
    set_counter(root / name, "max_energy_range_uj", 10'000'000);
  }
  EnergyMeter meter(root, "none");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 0);
  set_counter(root / "intel-rapl:0", "energy_uj", 4'000'000);
  set_counter(root / "intel-rapl:0:0", "energy_uj", 4'000'000);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 3);
  // Wrapped around: from 1 to 10, and on to half of one.
  set_counter(root / "intel-rapl:1", "energy_uj", 500'000);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 3 + 9.5);
}

TEST(Energy, is_unknown_where_the_machine_does_not_tell) {
  const TestFolder folder;
  for (const fs::path& root : {folder.path(), folder / "none"}) {
    EnergyMeter meter(root, (folder / "libnvidia-ml.so.1").string());
    EXPECT_FALSE(meter.joules().has_value());
    EXPECT_EQ(meter.of(), "");
  }
}

class EnergyOfGpus : public testing::Test {
 protected:
  void SetUp() override { ::setenv("FAKE_NVML", (folder_ / "counters").c_str(), 1); }
  void TearDown() override { ::unsetenv("FAKE_NVML"); }
  void count(const std::string& numbers) const { put_text(folder_ / "counters", numbers); }
  const TestFolder folder_;
};

TEST_F(EnergyOfGpus, is_that_of_all_that_count_theirs) {
  count("1000 -1 500000");
  EnergyMeter meter(folder_ / "none", FAKE_NVML_LIBRARY);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 0);
  EXPECT_EQ(meter.of(), "GPUs (NVML)");
  count("3000 -1 500500");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 2.5);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 2.5) << "since the meter was made";
  count("-1 -1 500500");
  EXPECT_FALSE(meter.joules().has_value()) << "a part of the energy is not all of it";
}

TEST_F(EnergyOfGpus, is_added_to_that_of_processors) {
  count("0");
  set_counter(folder_ / "intel-rapl:0", "energy_uj", 1'000'000);
  EnergyMeter meter(folder_.path(), FAKE_NVML_LIBRARY);
  EXPECT_EQ(meter.of(), "processors (RAPL) and GPUs (NVML)");
  set_counter(folder_ / "intel-rapl:0", "energy_uj", 3'000'000);
  count("1500");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 3.5);
}

TEST_F(EnergyOfGpus, is_unknown_without_a_driver_or_a_gpu_that_counts) {
  for (const char* numbers : {"", "-1"}) {
    count(numbers);
    EnergyMeter meter(folder_ / "none", FAKE_NVML_LIBRARY);
    EXPECT_FALSE(meter.joules().has_value());
    EXPECT_EQ(meter.of(), "");
  }
  ::unsetenv("FAKE_NVML");
  EXPECT_FALSE(EnergyMeter(folder_ / "none", FAKE_NVML_LIBRARY).joules().has_value());
}

}  // namespace
}  // namespace podium
