// Tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/task_words.h"
#include "train/loop/evaluation.h"

namespace podium {

// Rows of cells under a head, in columns as wide as they need; a column whose cells are all numbers
// (digits first) is aligned to the right. Every line ends in a newline; control characters are
// shown as ?.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// The text with ? instead of control characters, which a terminal would interpret.
std::string printable(std::string text);

std::string fixed(double value, int digits);         // "99.41"; "-" if it is not finite
std::string percent(double share);                   // as share_text()
std::string scaled(double value, const char* unit);  // "1.25 GFLOP", thousand by thousand

// "99.41% (9,941 of 10,000), loss 0.0193" of accuracies; "r2 0.9787 (1,000 rows), loss 0.0103" of
// other metrics. `of` follows the examples: " held out".
std::string evaluation_text(const EvaluationResult& result, const TaskWords& words,
                            const std::string& of = "");

}  // namespace podium
