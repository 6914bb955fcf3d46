// A table in a file, as named in a recipe: `data = "table:FILE"`, or the [data] table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace podium {

// A value of a recipe's `data` that is not the name of a dataset: the rows of a file.
inline constexpr const char* kTableData = "table";
// What is predicted; by default, classes where the target's column has words, else a number.
inline constexpr const char *kAutoTask = "auto", *kRegression = "regression",
                            *kClassification = "classification";

// The keys of a recipe's [data] table that only tables have.
struct TableOptions {
  std::string target;  // the column that is predicted; empty: the last
  std::string task = kAutoTask;
  std::vector<std::string> ignore;         // columns that are not read
  std::vector<std::string> class_columns;  // columns whose numbers are names of classes
  std::uint64_t split_seed = 0;            // draws the rows that are held out
  bool operator==(const TableOptions&) const = default;
};

}  // namespace podium
