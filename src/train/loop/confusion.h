// A confusion matrix: how often each class was taken for each.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace podium {

// How often each class was classified as each class. Integers: equal for any placement. Holds only
// the pairs of classes that occur, so its memory is bounded by the number of examples, not by the
// square of the number of classes.
class ConfusionMatrix {
 public:
  ConfusionMatrix() = default;
  // All counts are 0.
  explicit ConfusionMatrix(std::int64_t classes) : classes_(classes) {}
  std::int64_t classes() const { return classes_; }
  // Counts `examples` more of class `label` that were classified as `guess`; -1: as no class,
  // because their logits are not numbers.
  void add(std::int64_t label, std::int64_t guess, std::int64_t examples = 1);
  // How many there are.
  std::int64_t at(std::int64_t label, std::int64_t guess) const;
  // The number of examples of the class.
  std::int64_t examples(std::int64_t label) const;
  std::int64_t correct() const;
  // Recall: the share of a class's examples that were classified as it; 0 if there are none.
  double accuracy(std::int64_t label) const;
  // The counts above 0, by (label, guess).
  using Cells = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;
  const Cells& cells() const { return cells_; }
  bool operator==(const ConfusionMatrix&) const = default;

 private:
  std::int64_t classes_ = 0;
  Cells cells_;
};

}  // namespace podium
