// Initial parameters and running statistics for recipes with [init]: copied from another run, a
// safetensors file or one of torch.save, by name. docs/recipes.md states the mapping.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "files/safetensors.h"
#include "train/loop/trainer.h"
#include "train/recipe/recipe.h"

namespace podium {

// What [init] names: the FP32 tensors of a run's last checkpoint, of a checkpoint's folder or of a
// safetensors file, without the state of optimizers, under the names that init.map gives them.
struct InitialTensors {
  std::string source;  // for people
  std::string hash;    // of names and values
  std::vector<NamedTensor> tensors;
};
// Throws UserError(kData) if the file does not exist or is damaged, if a rule of init.map matches
// no tensor or two tensors get the same name, or if the recipe states another hash (init.hash).
InitialTensors read_initial(const InitOptions& options);

// The recipe with init.hash: the recorded one, if `run` contains a run of the recipe, so that it
// can be resumed when the source is gone; otherwise the hash of the source.
Recipe with_initial_hash(Recipe recipe, const std::filesystem::path& run = {});

// Sets the initial values of a trainer that has made no step. Returns a line that describes what
// was copied; empty if the recipe has no [init]. Throws UserError(kData), with one line per tensor,
// if a parameter or statistic that init.fresh does not match is missing or has another shape, or if
// a value is not finite.
std::string take_initial(Trainer& trainer);

}  // namespace podium
