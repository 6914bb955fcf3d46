#include "train/energy.h"

#include <gtest/gtest.h>

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
  const fs::path root = folder.path();
  for (const char* name : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"}) {
    set_counter(root / name, "energy_uj", 1'000'000);
    set_counter(root / name, "max_energy_range_uj", 10'000'000);
  }
  EnergyMeter meter(root);
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
  EXPECT_FALSE(EnergyMeter(folder.path()).joules().has_value());
  EXPECT_FALSE(EnergyMeter(folder.path() / "none").joules().has_value());
}

}  // namespace
}  // namespace podium
