// podium prices: what an hour of a machine costs, with the day of each price.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/table.h"
#include "train/machine/price.h"

namespace podium {
namespace {

struct PricesArguments {
  std::string pattern = "*";
  bool json = false;
};

ExitCode list_prices(const PricesArguments& arguments) {
  std::vector<Price> prices = known_prices();
  PODIUM_REQUIRE(!prices.empty(), ExitCode::kUsage,
                 "no prices were found here or beside the program; set $PODIUM_PRICES to a folder");
  std::ranges::stable_sort(prices, [](const Price& a, const Price& b) {
    return std::pair(a.name(), a.date) < std::pair(b.name(), b.date);
  });
  Table table({"PRICE", "DEVICES", "USD/H", "KIND", "DATE", "REGION", "INCLUDES", "SOURCE"});
  auto json = nlohmann::ordered_json::array();
  std::vector<std::string> names;
  for (const Price& price : prices) {
    names.push_back(price.name());
    if (!matches_pattern(arguments.pattern, price.name())) continue;
    table.add({price.name(),
               price.count == 0 ? price.device : cat(price.count, " x ", price.device),
               cat(price.usd_per_hour), price.kind, price.date, price.region, price.includes,
               price.source});
    json.push_back({{"price", price.name()},
                    {"device", price.device},
                    {"count", price.count},
                    {"region", price.region},
                    {"usd_per_hour", price.usd_per_hour},
                    {"kind", price.kind},
                    {"date", price.date},
                    {"includes", price.includes},
                    {"source", price.source}});
  }
  PODIUM_REQUIRE(!json.empty(), ExitCode::kUsage, "no price matches \"", arguments.pattern,
                 "\"; the nearest name is \"", nearest_word(arguments.pattern, names), "\"");
  std::cout << (arguments.json ? json_text(json, 2) + "\n" : table.text());
  return ExitCode::kDone;
}

}  // namespace

void add_prices_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<PricesArguments>();
  CLI::App* command = add_command(app, line, "prices", "Lists the hourly prices of machines",
                                  {"podium prices", "podium prices 'gcp/*' --json"},
                                  [arguments] { return list_prices(*arguments); });
  command->add_option("PATTERN", arguments->pattern,
                      "Names to list, with * for any characters; default: all");
  command->add_flag("--json", arguments->json, "Write JSON");
}

}  // namespace podium
