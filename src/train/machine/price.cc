#include "train/machine/price.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "base/error.h"
#include "base/words.h"
#include "files/file_io.h"
#include "files/toml_records.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostPriceBytes = 1 << 20;
// No device was ever listed at as much; catalogues have such numbers as placeholders (700 for a
// TPU).
constexpr double kMostPerDevice = 100, kMostPerMachine = 1e5;

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all = {"on demand", "spot", "reserved"};
  return all;
}

std::string with_dashes(std::string text) {
  std::ranges::replace(text, ' ', '-');
  return text;
}

// A name may stand in PROVIDER/MACHINE:KIND@DATE.
bool is_plain(const std::string& name) {
  return !name.empty() && name.find_first_of("/:@ \t\n") == std::string::npos;
}

}  // namespace

std::string Price::name() const { return cat(provider, "/", machine); }

std::string Price::text() const {
  return cat(name(), ", ", usd_per_hour, " USD/h (", kind, ", ", date, ")");
}

double ChosenPrice::usd(double seconds) const {
  return price.usd_per_hour * static_cast<double>(machines) * seconds / 3600;
}

std::string ChosenPrice::text() const {
  return cat(machines == 1 ? "" : cat(machines, " x "), price.name(), " of ", price.date,
             price.kind == "on demand" ? "" : cat(" (", price.kind, ")"));
}

std::vector<Price> parse_prices(std::string_view text, const std::string& source) {
  std::vector<Price> prices;
  std::vector<std::string> problems;
  for (const TomlRecord& record : parse_records(text, source, {"price"})) {
    RecordReader reader(record, source, problems);
    Price price;
    price.provider = reader.text("provider");
    price.machine = reader.text("machine");
    for (const char* key : {"provider", "machine"}) {
      const std::string& name = key == std::string("machine") ? price.machine : price.provider;
      if (!name.empty() && !is_plain(name))
        reader.problem(key, cat("`", key, "` is \"", name,
                                "\", and a name has no blank, `/`, `:` or `@`; write - instead"));
    }
    price.device = reader.text("device");
    price.count = reader.whole(
        "count", 0, 1'000'000,
        "write the number of devices in the machine; 0 for a machine without accelerators");
    price.region = reader.text("region");
    const double most =
        std::min(kMostPerMachine,
                 kMostPerDevice * static_cast<double>(std::max<std::int64_t>(price.count, 1)));
    price.usd_per_hour =
        reader.number("usd_per_hour", 1e-6, most,
                      cat("write the price of the whole machine; more than ", kMostPerDevice,
                          " USD per hour and device is treated as a placeholder"));
    price.kind = reader.optional_text("kind");
    if (price.kind.empty()) price.kind = "on demand";
    if (std::ranges::find(kinds(), price.kind) == kinds().end())
      reader.problem("kind", cat("`kind` is \"", price.kind, "\"; the nearest is \"",
                                 nearest_word(price.kind, kinds()), "\" of ", join_words(kinds())));
    price.date = reader.text("date");
    if (!price.date.empty() && !is_date(price.date))
      reader.problem("date", cat("`date` is \"", price.date,
                                 "\"; write the date of the price, as 2026-11-09, "
                                 "2026-11 or \"2026\""));
    price.includes = reader.optional_text("includes");
    price.source = reader.text("source");
    reader.finish();
    prices.push_back(std::move(price));
  }
  raise_problems(problems);
  return prices;
}

std::vector<Price> known_prices() {
  std::vector<Price> all;
  for (const auto& file : toml_files(shared_folders("prices", "PODIUM_PRICES"))) {
    const auto text = read_text(file, kMostPriceBytes);
    if (!text) continue;  // removed since it was listed
    for (Price& price : parse_prices(*text, file.string())) all.push_back(std::move(price));
  }
  return all;
}

ChosenPrice choose_price(const std::string& words, const std::vector<Price>& prices) {
  PODIUM_REQUIRE(!prices.empty(), ExitCode::kUsage,
                 "no prices were found; write a file in prices/, or name its folder in "
                 "$PODIUM_PRICES (docs/comparing-devices.md)");
  ChosenPrice chosen;
  std::string name = words, kind, date;
  if (const std::size_t at = name.find('@'); at != std::string::npos) {
    date = name.substr(at + 1);
    name.resize(at);
    PODIUM_REQUIRE(is_date(date), ExitCode::kUsage, "\"", words, "\": \"", date,
                   "\" is not a date; write PROVIDER/MACHINE@2018, @2018-04 or @2018-04-30");
  }
  if (const std::size_t at = name.find(':'); at != std::string::npos) {
    kind = name.substr(at + 1);
    name.resize(at);
    std::vector<std::string> known;
    for (const std::string& one : kinds()) known.push_back(with_dashes(one));
    PODIUM_REQUIRE(std::ranges::find(known, kind) != known.end(), ExitCode::kUsage, "\"", words,
                   "\": there is no kind of price \"", kind, "\"; known: ", join_words(known));
  }
  std::int64_t machines = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), machines);
  if (error == std::errc() && rest != name.data() + name.size() && *rest == 'x') {
    PODIUM_REQUIRE(machines >= 1 && machines <= 1'000'000, ExitCode::kUsage, "\"", words,
                   "\": the number of machines must be from 1 to 1000000");
    chosen.machines = machines;
    name.erase(0, static_cast<std::size_t>(rest - name.data()) + 1);
  }
  const Price* best = nullptr;
  std::vector<std::string> names, others;
  for (const Price& price : prices) {
    names.push_back(price.name());
    if (price.name() != name) continue;
    others.push_back(price.text());
    if (with_dashes(price.kind) != (kind.empty() ? "on-demand" : kind)) continue;
    // "2018-04" is of any day of that April.
    if (!date.empty() && price.date.substr(0, date.size()) > date) continue;
    if (best == nullptr || price.date > best->date) best = &price;
  }
  if (best == nullptr && others.empty()) {
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::ranges::stable_sort(names, {},
                             [&](const std::string& one) { return edit_distance(name, one); });
    names.resize(std::min<std::size_t>(names.size(), 3));
    throw UserError(cat("there is no price \"", name, "\"; the nearest are ", join_words(names),
                        "; `podium prices` lists all"));
  }
  PODIUM_REQUIRE(best != nullptr, ExitCode::kUsage, "\"", words, "\": no price is of that kind",
                 date.empty() ? "" : " and not later than that date", "; there are ",
                 join_words(others, "; "));
  chosen.price = *best;
  return chosen;
}

std::string usd_text(double usd) {
  if (!std::isfinite(usd)) return "-";
  const int whole = usd >= 1 ? static_cast<int>(std::floor(std::log10(usd))) + 1 : 0;
  const int digits = usd >= 1  ? std::max(2, 3 - whole)
                     : usd > 0 ? std::min(2 - static_cast<int>(std::floor(std::log10(usd))), 8)
                               : 2;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f USD", digits, usd);
  return text;
}

}  // namespace podium
