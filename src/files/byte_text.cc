#include "files/byte_text.h"

#include <exception>
#include <initializer_list>
#include <utility>

#include "base/error.h"

namespace podium {

std::string format_bytes(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, value < 10 && unit > 0 ? "%.2f %s" : "%.0f %s", value,
                units[unit]);
  return text;
}

std::int64_t parse_bytes(const std::string& text) {
  const auto wrong = [&]() -> UserError {
    return UserError(cat("\"", text,
                         "\" is not an amount of memory; write bytes, or a number with KB, MB, GB, "
                         "KiB, MiB or GiB, such as 2GiB"));
  };
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    throw wrong();
  }
  const std::string unit = text.substr(text.find_first_not_of(' ', used) == std::string::npos
                                           ? text.size()
                                           : text.find_first_not_of(' ', used));
  double factor = 0;
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<const char*, double>>{{"", 1},
                                                             {"B", 1},
                                                             {"KB", 1e3},
                                                             {"MB", 1e6},
                                                             {"GB", 1e9},
                                                             {"TB", 1e12},
                                                             {"KiB", 1024.0},
                                                             {"MiB", 1048576.0},
                                                             {"GiB", 1073741824.0},
                                                             {"TiB", 1099511627776.0}}) {
    if (unit == name) factor = bytes;
  }
  if (factor == 0 || !(value * factor >= 1) || value * factor > 9e18) throw wrong();
  return static_cast<std::int64_t>(value * factor);
}

}  // namespace podium
