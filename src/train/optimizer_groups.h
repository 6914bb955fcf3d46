// The groups of parameters that may have an optimizer of their own, and where a recipe gives it.
#pragma once

#include "nn/network.h"
#include "train/recipe.h"

namespace podium {

struct OptimizerGroup {
  ParameterGroup group;
  OptimizerOptions Recipe::*options;
  const char* table;       // of the recipe
  const char* parameters;  // what the group holds
  bool matrices;           // each of them is one, so that muon fits
};

inline constexpr OptimizerGroup kOptimizerGroups[] = {
    {ParameterGroup::kFilters, &Recipe::optimizer_filters, "optimizer.filters",
     "the weights of convolutions", true},
    {ParameterGroup::kDense, &Recipe::optimizer_dense, "optimizer.dense",
     "the weights of dense layers", true},
    {ParameterGroup::kWhitening, &Recipe::optimizer_whitening, "optimizer.whitening",
     "the bias of a whitening convolution", false},
};
static_assert(std::size(kOptimizerGroups) + 1 == kParameterGroups);  // and the rest

}  // namespace podium
