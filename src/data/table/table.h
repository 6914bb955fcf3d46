// Tables: the rows of a file as examples (docs/tables.md).
//
// An example has the fields "features", f32 [features], and the target, by its column's name: f32,
// a number, or i32, a class. A column of numbers is one feature, (number - mean) / deviation; a
// column of classes is one feature for each of its words, 1 for the row's and 0 for others. A
// target of numbers is normalised likewise. Means and deviations are of the rows to train on, in
// double precision, in the order of the file; the features are rounded to f32 once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/source/row_source.h"
#include "data/table/cells.h"
#include "data/table/table_options.h"

namespace podium {

inline constexpr const char* kFeaturesField = "features";

// The two parts of a table.
struct TableParts {
  std::shared_ptr<const RowSource> train, held_out;
};

// The cells of a file: of an .npy by its first bytes, else CSV. Throws UserError(kData) as cells.h
// says.
Cells read_cells(const std::string& file);

// Its two parts. `held_out` is the share of the rows that is evaluated; options.split_seed draws
// which. Throws UserError(kData), which names file, line and column, if a cell is missing or no
// number where its column has numbers, the target is unknown or constant, or a part has no rows.
TableParts parts_of(const Cells& cells, const TableOptions& options, double held_out);
// The same of the table that is found and read.
TableParts open_table(const std::string& path, const TableOptions& options, double held_out,
                      const std::string& data_dir);

// Rows to predict, of the columns that the fields of a run name; other columns are not read. Throws
// UserError(kData) if one is missing or has a word that the training did not have.
RowSource rows_to_predict(const Cells& cells, const std::vector<Field>& fields);

}  // namespace podium
