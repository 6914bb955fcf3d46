#include "cli/commands/differences.h"

#include <array>
#include <cstdio>

#include "base/words.h"
#include "cli/table.h"

namespace podium {
namespace {

std::string exponent_text(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

}  // namespace

std::string difference_table(const std::vector<TensorDifference>& tensors) {
  Table table({"TENSOR", "VALUES", "DIFFERENT", "MAX ULPS", "MAX ABSOLUTE", ""});
  for (const TensorDifference& d : tensors)
    table.add({d.name, with_commas(d.values), with_commas(d.different), with_commas(d.most_ulps),
               exponent_text(d.most_absolute), d.note});
  return table.text();
}

}  // namespace podium
