// Where a run's parameters and running statistics start, if its recipe has [init]: from those of
// another run or of a safetensors file, by name. docs/recipes.md states the mapping.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/recipe.h"
#include "train/safetensors.h"
#include "train/trainer.h"

namespace podium {

// What [init] names: the FP32 tensors of a run's last checkpoint, of a checkpoint's folder or of a
// safetensors file, without the state of optimizers, under the names that init.map gives them.
struct InitialTensors {
  std::string source;  // for people
  std::string hash;    // of names and values
  std::vector<NamedTensor> tensors;
};
// UserError: kData where there is no such file or it is damaged, where a rule of init.map matches
// no tensor or two tensors get one name, or where the recipe has another hash (init.hash).
InitialTensors read_initial(const InitOptions& options);

// The recipe with init.hash: the one that `run` was started with, if that holds a run of it, so
// that a run goes on where its source is gone; otherwise that of the source.
Recipe with_initial_hash(Recipe recipe, const std::filesystem::path& run = {});

// Gives the trainer, which has made no step, its recipe's initial values. Returns a line that says
// what was taken, empty where the recipe has no [init]. UserError (kData), with a line for each
// tensor, where a parameter or statistic that init.fresh does not match is missing or has another
// shape, or where a value is not finite.
std::string take_initial(Trainer& trainer);

}  // namespace podium
