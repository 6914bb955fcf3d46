#include "train/loop/confusion.h"

#include "base/error.h"

namespace podium {

void ConfusionMatrix::add(std::int64_t label, std::int64_t guess, std::int64_t examples) {
  PODIUM_CHECK(label >= 0 && label < classes_ && guess >= -1 && guess < classes_, label, " ",
               guess);
  if (examples > 0) cells_[{label, guess}] += examples;
}

std::int64_t ConfusionMatrix::at(std::int64_t label, std::int64_t guess) const {
  const auto cell = cells_.find({label, guess});
  return cell == cells_.end() ? 0 : cell->second;
}

std::int64_t ConfusionMatrix::examples(std::int64_t label) const {
  std::int64_t sum = 0;
  for (auto cell = cells_.lower_bound({label, -1});
       cell != cells_.end() && cell->first.first == label; ++cell)
    sum += cell->second;
  return sum;
}

std::int64_t ConfusionMatrix::correct() const {
  std::int64_t sum = 0;
  for (const auto& [place, count] : cells_)
    if (place.first == place.second) sum += count;
  return sum;
}

double ConfusionMatrix::accuracy(std::int64_t label) const {
  const std::int64_t all = examples(label);
  return all == 0 ? 0 : static_cast<double>(at(label, label)) / static_cast<double>(all);
}

}  // namespace podium
