// What is wrong with the options of augmentation or normalisation, by the recipe's key: a recipe's
// check shows each beside its line, a constructor throws them all.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace podium {

struct OptionProblem {
  std::string key;   // "augment.shift"
  std::string text;  // names the key
};

// Throws one UserError(kUsage), a line each, if there are any.
inline void refuse(const std::vector<OptionProblem>& problems) {
  if (problems.empty()) return;
  std::string text;
  for (const OptionProblem& problem : problems) text += cat(text.empty() ? "" : "\n", problem.text);
  throw UserError(text, ExitCode::kUsage);
}

}  // namespace podium
