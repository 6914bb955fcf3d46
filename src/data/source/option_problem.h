// A fault in the options of augmentation or normalisation, with the recipe's key: the check of a
// recipe shows each with its line, a constructor throws all of them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace podium {

struct OptionProblem {
  std::string key;   // "augment.shift"
  std::string text;  // names the key
};

// Throws one UserError(kUsage) with one line per problem, if there are any.
inline void refuse(const std::vector<OptionProblem>& problems) {
  if (problems.empty()) return;
  std::string text;
  for (const OptionProblem& problem : problems) text += cat(text.empty() ? "" : "\n", problem.text);
  throw UserError(text, ExitCode::kUsage);
}

}  // namespace podium
