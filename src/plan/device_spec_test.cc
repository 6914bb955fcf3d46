#include "plan/device_spec.h"

#include <gtest/gtest.h>

#include "base/scratch_test_util.h"
#include "train/machine/price.h"

namespace podium {
namespace {

const char* const kDevice = R"([[device]]
name = "d"
description = "a device"
family = "gpu"
teraflops.fp32 = 10
teraflops.fp16 = 80
memory_gib = 16
bandwidth_gb_s = 900
devices_per_node = 8
node_link_gb_s = 100
network_link_gb_s = 10
latency_us = 5
source = "a data sheet"
)";

TEST(DeviceSpec, numbers_of_data_sheets_become_units_of_one) {
  const auto devices = parse_devices(kDevice, "d.toml");
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_DOUBLE_EQ(devices[0].peak("fp16"), 80e12);
  EXPECT_DOUBLE_EQ(devices[0].bandwidth, 900e9);
  EXPECT_DOUBLE_EQ(devices[0].latency, 5e-6);
  EXPECT_DOUBLE_EQ(devices[0].memory_bytes, 16.0 * (1 << 30));
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { static_cast<void>(devices[0].peak("bf16")); }),
                  "it has fp16, fp32");
}

TEST(DeviceSpec, all_that_is_wrong_is_named_with_its_line) {
  std::string text = kDevice;
  text.replace(text.find("900"), 3, "-9");
  text.replace(text.find("fp16"), 4, "fp61");
  text.replace(text.find("\"gpu\""), 5, "\"gpo\"");
  text.replace(text.find("latency_us"), 10, "latenci_us");
  const std::string refused = user_error(ExitCode::kUsage, [&] { parse_devices(text, "d.toml"); });
  EXPECT_CONTAINS(refused, "d.toml:4: `family` is \"gpo\"; the nearest is \"gpu\"");
  EXPECT_CONTAINS(refused, "d.toml:6: unknown precision \"fp61\"; the nearest is \"fp32\"");
  EXPECT_CONTAINS(refused, "d.toml:8: `bandwidth_gb_s` must be a number");
  EXPECT_CONTAINS(refused, "this device has no `latency_us`; add it");
  EXPECT_CONTAINS(refused, "d.toml:12: unknown key `latenci_us`; the nearest is `latency_us`");
}

TEST(DeviceSpec, those_of_the_tree_are_sound_and_an_unknown_one_is_answered_with_the_nearest) {
  const auto devices = known_devices();
  EXPECT_GT(devices.size(), 20u);
  EXPECT_DOUBLE_EQ(find_device("v100", devices).peak("fp16"), 125e12);
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { find_device("v1000", devices); }),
                  "the nearest is \"v100\"");
}

TEST(DeviceSpec, prices_of_accelerators_name_devices_that_are_known) {
  const auto devices = known_devices();
  for (const Price& price : known_prices()) {
    if (price.count == 0) continue;
    EXPECT_EQ(find_device(price.device, devices).name, price.device);
  }
}

}  // namespace
}  // namespace podium
