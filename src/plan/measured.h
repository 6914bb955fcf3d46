// What a plan measures on this machine: how fast a core prepares the examples of a recipe, and how
// long a step takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/recipe/recipe.h"
#include "train/run/rank_plan.h"

namespace podium {

class Source;  // data/source/source.h

// The examples that are measured, as they are before they are normalised and augmented.
struct MeasuredData {
  std::shared_ptr<const Source> set;
  std::string of;  // how a core prepares which examples, for people
};

// The recipe's own pictures in files, texts and tables; of pictures that are not here or cannot be
// decoded, one that is drawn, a JPEG of 500 x 375 pixels. Of other pictures, drawn ones of their
// size, a batch at least. Of a text that is not here, where data.vocabulary is stated, drawn ones.
// Throws UserError(kData) if another text or a table cannot be read.
MeasuredData data_to_measure(const Recipe& recipe, const DataShape& data,
                             const std::string& data_dir = "");

// Examples that a core decodes, crops, resizes, normalises and augments in a second. Takes less
// than a second.
double examples_per_core(const MeasuredData& data, const Recipe& recipe);

// Seconds of a step of the recipe with so many workers on the CPU, input, exchange and hash
// included. Makes steps for five seconds; at least four of them, or one if it takes longer than
// ten. Throws as the constructor of Trainer does.
double step_seconds_here(const MeasuredData& data, const Recipe& recipe, std::int64_t workers);

}  // namespace podium
