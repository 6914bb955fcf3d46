#include "train/machine/price.h"

#include <gtest/gtest.h>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

std::string price(const std::string& machine, const std::string& usd, const std::string& date,
                  const std::string& more = "") {
  return cat("[[price]]\nprovider = \"gcp\"\nmachine = \"", machine,
             "\"\ndevice = \"tpu-v2\"\ncount = 4\nregion = \"us\"\nusd_per_hour = ", usd,
             "\ndate = ", date, "\nsource = \"a page\"\n", more);
}

TEST(Price, the_newest_offer_on_demand_is_chosen_unless_another_is_named) {
  const auto prices = parse_prices(price("tpu-v2-8", "6.5", "\"2018-04\"") +
                                       price("tpu-v2-8", "4.5", "2026-01-31") +
                                       price("tpu-v2-8", "1.35", "\"2026\"", "kind = \"spot\"\n"),
                                   "p.toml");
  EXPECT_DOUBLE_EQ(choose_price("gcp/tpu-v2-8", prices).price.usd_per_hour, 4.5);
  EXPECT_DOUBLE_EQ(choose_price("gcp/tpu-v2-8@2018", prices).price.usd_per_hour, 6.5);
  EXPECT_DOUBLE_EQ(choose_price("gcp/tpu-v2-8@2020-02", prices).price.usd_per_hour, 6.5);
  EXPECT_DOUBLE_EQ(choose_price("gcp/tpu-v2-8:spot", prices).price.usd_per_hour, 1.35);
  const ChosenPrice several = choose_price("32xgcp/tpu-v2-8:on-demand@2018-04-30", prices);
  EXPECT_DOUBLE_EQ(several.usd(1800), 16 * 6.5);
  EXPECT_EQ(several.text(), "32 x gcp/tpu-v2-8 of 2018-04");
}

TEST(Price, an_unknown_name_is_answered_with_the_nearest) {
  const auto prices = parse_prices(price("tpu-v2-8", "6.5", "\"2018\""), "p.toml");
  const auto refused = [&](const char* words) {
    return user_error(ExitCode::kUsage, [&] { choose_price(words, prices); });
  };
  EXPECT_CONTAINS(refused("gcp/tpu-v2"), "the nearest are gcp/tpu-v2-8");
  EXPECT_CONTAINS(refused("gcp/tpu-v2-8@2017"), "not later than that date; there are gcp/tpu-v2-8");
  EXPECT_CONTAINS(refused("gcp/tpu-v2-8@April"), "is not a date");
  EXPECT_CONTAINS(refused("gcp/tpu-v2-8:cheap"), "known: on-demand, spot, reserved");
  EXPECT_CONTAINS(refused("0xgcp/tpu-v2-8"), "number of machines");
}

TEST(Price, a_file_is_refused_with_line_rule_and_remedy_for_all_that_is_wrong) {
  const std::string text = user_error(ExitCode::kUsage, [] {
    parse_prices(price("a b", "-3", "\"yesterday\"", "kind = \"spott\"\nregoin = \"x\"\n") +
                     "[[price]]\nprovider = 3\n",
                 "p.toml");
  });
  EXPECT_CONTAINS(text, "p.toml:3: `machine` is \"a b\"");
  EXPECT_CONTAINS(text, "p.toml:7: `usd_per_hour` must be a number");
  EXPECT_CONTAINS(text, "p.toml:8: `date` is \"yesterday\"; write the date");
  EXPECT_CONTAINS(text, "p.toml:10: `kind` is \"spott\"; the nearest is \"spot\"");
  EXPECT_CONTAINS(text, "p.toml:11: unknown key `regoin`; the nearest is `region`");
  EXPECT_CONTAINS(text, "p.toml:12: this price has no `date`; add it");
  EXPECT_CONTAINS(text, "p.toml:13: `provider` must be a text");
}

TEST(Price, a_placeholder_of_a_catalogue_is_no_price) {
  EXPECT_CONTAINS(
      user_error(ExitCode::kUsage, [] { parse_prices(price("tpu", "700", "\"2026\""), "p.toml"); }),
      "treated as a placeholder");
}

TEST(Price, dates_are_those_of_real_days) {
  for (const char* wrong : {"18", "2018-13", "2018-02-30", "2018-2-3", "2018/04", "2018-04-30x"})
    EXPECT_CONTAINS(user_error(ExitCode::kUsage,
                               [&] { parse_prices(price("t", "1", cat("\"", wrong, "\"")), "p"); }),
                    "`date` is");
  EXPECT_EQ(parse_prices(price("t", "1", "\"2024-02-29\""), "p").size(), 1u);
}

TEST(Price, no_toml_names_its_line) {
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { parse_prices("[[price]]\n= 3\n", "p.toml"); }),
                  "p.toml:2: not TOML");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { parse_prices("x = 3\n", "p.toml"); }),
                  "p.toml:1: unknown table `x`");
}

TEST(Price, those_of_the_tree_are_sound_and_hold_the_comparisons_of_2018) {
  const auto prices = known_prices();
  EXPECT_GT(prices.size(), 30u);
  for (const auto& [name, usd] :
       {std::pair("aws/p3.2xlarge@2018", 3.06), std::pair("azure/nc6s-v3@2018", 3.06),
        std::pair("gcp/tpu-v2-8@2018", 6.50)})
    EXPECT_DOUBLE_EQ(choose_price(name, prices).price.usd_per_hour, usd) << name;
}

TEST(Price, small_sums_keep_three_digits) {
  EXPECT_EQ(usd_text(0.0123456), "0.0123 USD");
  EXPECT_EQ(usd_text(0), "0.00 USD");
  EXPECT_EQ(usd_text(6.5), "6.50 USD");
  EXPECT_EQ(usd_text(1234.5), "1234.50 USD");
}

}  // namespace
}  // namespace podium
