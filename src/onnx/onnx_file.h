// A trained network as an ONNX file, for other programs (docs/export.md).
#pragma once

#include <string>
#include <vector>

#include "nn/model.h"
#include "train/loop/checkpoint.h"
#include "train/recipe/recipe.h"

namespace podium {

// The network that predicts, in FP32, of a checkpoint that fits it. Its inputs are the fields of
// the data that it reads, as the data have them: pictures u8 [batch, C, H, W], other numbers as
// they are before they are normalised, integers as i64; what it carries from batch to batch is an
// input and an output besides. Any batch fits. Throws UserError(kUsage) if the network has an
// operation that ONNX has not, or is larger than such a file can be.
std::string onnx_file_of(const Recipe& recipe, const Model& model, const std::vector<Field>& fields,
                         const Checkpoint& checkpoint);

}  // namespace podium
