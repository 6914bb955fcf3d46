// `podium predict` of a run on the rows of a file: a table, or sentences.
#pragma once

#include <string>

#include "base/error.h"
#include "data/source/row_source.h"
#include "data/table/cells.h"
#include "train/predict/predictor.h"

namespace podium {

// Writes CSV to `out`, or to standard output if it is empty: the columns of the file, then
// "predicted" and, of classes, "probability". `rows` are those of `cells`, as the network reads
// them.
ExitCode predict_rows(Predictor& predictor, const Cells& cells, const RowSource& rows,
                      const std::string& out);

}  // namespace podium
