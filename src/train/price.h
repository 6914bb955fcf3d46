// What an hour of a machine costs: prices/*.toml, one [[price]] for each offer, with the day on
// which it was seen and where. A cost is never shown without that date.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// One offer.
struct Price {
  std::string provider, machine;  // "gcp", "tpu-v2-8"
  std::string device;             // a name of devices/, or another where there is none
  std::int64_t count = 0;         // devices in the machine
  std::string region;             // as the provider writes it; "unknown" where the source has none
  std::string kind;               // "on demand", "spot", "reserved"
  double usd_per_hour = 0;        // of the whole machine
  std::string date;               // "2018", "2018-04" or "2018-04-30": when it was asked
  std::string includes;           // "accelerator alone", ...; may be empty
  std::string source;             // who published it

  // "gcp/tpu-v2-8".
  std::string name() const;
  // "gcp/tpu-v2-8, 6.5 USD/h (on demand, 2018-04)".
  std::string text() const;
};

// A price that was chosen for a run: so many machines of it.
struct ChosenPrice {
  Price price;
  std::int64_t machines = 1;

  // Of so many seconds of all machines.
  double usd(double seconds) const;
  // "gcp/tpu-v2-8 of 2018-04"; with several machines, their number before it.
  std::string text() const;
};

// The prices of a text. UserError that names `source`, line, rule and remedy for all that is wrong:
// a price without a date or a source, below zero, or beyond what any device was ever listed at.
std::vector<Price> parse_prices(std::string_view text, const std::string& source);

// The prices of all files: $PODIUM_PRICES, prices/ in the current folder, beside the program,
// share/podium/prices.
std::vector<Price> known_prices();

// [MACHINESx]PROVIDER/MACHINE[:KIND][@DATE], KIND with "-" for blanks. Of several offers, the
// newest; on demand where no kind is named. With a date: the newest that is not later. UserError
// with the nearest names where there is none.
ChosenPrice choose_price(const std::string& words, const std::vector<Price>& prices);

// "0.0123 USD": three digits that mean something.
std::string usd_text(double usd);

}  // namespace podium
