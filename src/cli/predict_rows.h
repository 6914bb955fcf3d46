// `podium predict` of a run on a table: the rows of a file, with what the network says of them.
#pragma once

#include <string>

#include "base/error.h"
#include "train/run/predictor.h"

namespace podium {

// Writes CSV to `out`, or to standard output if it is empty: the table's own columns, then
// "predicted" and, of classes, "probability".
ExitCode predict_rows(Predictor& predictor, const std::string& file, const std::string& out);

}  // namespace podium
