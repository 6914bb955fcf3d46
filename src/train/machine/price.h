// Prices of machines per hour: prices/*.toml, with one [[price]] for each offer and the date and
// the source of each. A cost is never shown without that date.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// One offer.
struct Price {
  std::string provider, machine;  // "gcp", "tpu-v2-8"
  std::string device;             // a name of devices/, or another if it is not listed there
  std::int64_t count = 0;         // devices in the machine
  std::string region;             // in the provider's spelling; "unknown" if not stated
  std::string kind;               // "on demand", "spot", "reserved"
  double usd_per_hour = 0;        // of the whole machine
  std::string date;               // "2018", "2018-04" or "2018-04-30": date of the price
  std::string includes;           // "accelerator alone", ...; may be empty
  std::string source;             // who published it

  // "gcp/tpu-v2-8".
  std::string name() const;
  // "gcp/tpu-v2-8, 6.5 USD/h (on demand, 2018-04)".
  std::string text() const;
};

// A price that was chosen for a run, and the number of machines.
struct ChosenPrice {
  Price price;
  std::int64_t machines = 1;

  // The cost of all machines for this time.
  double usd(double seconds) const;
  // "gcp/tpu-v2-8 of 2018-04"; with several machines, preceded by their number.
  std::string text() const;
};

// Parses prices. Throws UserError with source, line, rule and remedy of all faults, such as a price
// without a date or a source, a negative one, or one above the highest plausible price of a device.
std::vector<Price> parse_prices(std::string_view text, const std::string& source);

// The prices of all files: $PODIUM_PRICES, prices/ in the current folder, beside the program,
// share/podium/prices.
std::vector<Price> known_prices();

// [MACHINESx]PROVIDER/MACHINE[:KIND][@DATE], KIND with "-" for blanks. Selects the newest
// offer, on demand if no kind is named; with a date, the newest that is not later. Throws UserError
// with the nearest names if there is none.
ChosenPrice choose_price(const std::string& words, const std::vector<Price>& prices);

// "0.0123 USD": three significant digits.
std::string usd_text(double usd);

}  // namespace podium
