// The word rule: what serves every kind of task has no words of one kind.
//
//   - train/, parallel/, plan/, report/ and cli/ say neither image, picture, photograph or pixel
//     nor label or correct, in code, comments or texts, except in files that are about pictures or
//     about classification.
//   - backend/ does not say picture or photograph. Its kernels call the extent of a batch `images`,
//     as convolutions do, and cross-entropy has labels.
//
// Tests, fuzz targets and #include lines are free.
#pragma once

#include <string>
#include <vector>

#include "tests/house/folders.h"

namespace podium::house {

// One line for each line of a file that breaks the rule: "train/loop/step.cc:7: image".
std::vector<std::string> words_of_one_task(const std::vector<SourceFile>& files);

// One line for each text that leaves the plural to its reader, as in "1 picture(s)": count_text()
// (base/words.h) writes numbers with units.
std::vector<std::string> unsure_plurals(const std::vector<SourceFile>& files);

}  // namespace podium::house
