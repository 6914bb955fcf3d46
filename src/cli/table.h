// Tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
std::string percent(double share);                   // "99.41%"
std::string scaled(double value, const char* unit);  // "1.25 GFLOP", thousand by thousand

}  // namespace podium
