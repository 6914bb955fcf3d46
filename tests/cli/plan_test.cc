// What a run will need and cost, before it is made.
#include <nlohmann/json.hpp>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class PlanCommand : public CommandLine {};

TEST_F(PlanCommand, says_time_and_cost_with_an_interval_and_the_date_of_the_price) {
  const Outcome outcome = podium({"plan", "cifar10-resnet32", "--on", "v100"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"data sheet 2017", "memory of a device", "80% INTERVAL", "another recipe",
        "on demand, 2026", "cheapest", "scaling falls below 80%"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  const auto json =
      nlohmann::json::parse(podium({"plan", "cifar10-resnet32", "--on", "v100", "--price",
                                    "aws/p3.2xlarge@2018", "--critical-batch", "2000", "--json"})
                                .out);
  ASSERT_EQ(json["rows"].size(), 13U);  // 1, 2, 4, ... 4096
  EXPECT_EQ(json["price_date"], "2018-04");
  const auto& first = json["rows"][0];
  EXPECT_NEAR(first["usd"].get<double>(), first["seconds"].get<double>() * 3.06 / 3600, 1e-6);
  EXPECT_LT(first["seconds_low"], first["seconds"]);
  EXPECT_GT(first["seconds_high"], first["seconds"]);
  EXPECT_FALSE(json["rows"][12]["same_recipe"].get<bool>());
  EXPECT_GT(json["rows"][12]["epochs"], first["epochs"]);
}

TEST_F(PlanCommand, plans_for_this_machine_and_for_so_many_devices) {
  const auto here = nlohmann::json::parse(podium({"plan", "mnist", "--on", "here", "--json"}).out);
  EXPECT_GT(here["rows"][0]["images_per_second"], 100);
  EXPECT_EQ(here["precision"], "fp32");
  const auto eight =
      nlohmann::json::parse(podium({"plan", "mnist", "--on", "tpu-v2x8", "--json"}).out);
  ASSERT_EQ(eight["rows"].size(), 1U);
  EXPECT_EQ(eight["rows"][0]["devices"], 8);
  EXPECT_EQ(eight["rows"][0]["machines"], 2);  // of four chips
}

TEST_F(PlanCommand, a_budget_that_nothing_meets_is_answered_with_the_nearest) {
  const Outcome outcome =
      podium({"plan", "cifar10-resnet32", "--on", "v100", "--deadline", "1s", "--budget", "0.01"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("no number of devices meets that; the nearest is"), std::string::npos)
      << outcome.out;
}

TEST_F(PlanCommand, refuses_devices_prices_and_times_that_are_none) {
  expect_refusal(podium({"plan", "mnist", "--on", "v1000"}), 2, {"the nearest is \"v100\""});
  expect_refusal(podium({"plan", "mnist", "--on", "v100x0"}), 2, {"from 1 to 1000000"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--precision", "bf16"}), 2,
                 {"it has fp16, fp32"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--price", "gcp/tpu-v2-8"}), 2,
                 {"is for the device tpu-v2"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--deadline", "soon"}), 2,
                 {"is not a time above zero"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--budget", "-3"}), 2, {"--budget"});
  expect_refusal(podium({"plan", "mnist", "--on", "a40", "--budget", "3"}), 2,
                 {"no price of a40 is known"});
}

}  // namespace
}  // namespace podium::test
