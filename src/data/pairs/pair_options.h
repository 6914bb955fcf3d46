// Pairs of sentences, as named in a recipe: `data = "pairs:FILE"`, or the [data] table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace podium {

// A value of a recipe's `data` that is not the name of a dataset: sentences and what they are in
// another language.
inline constexpr const char* kPairData = "pairs";

// The names of their fields.
inline constexpr const char *kSourceField = "source", *kSourceLengthField = "source_length",
                            *kTokensField = "tokens", *kNextField = "next";

// The keys of a recipe's [data] table that only pairs have.
struct PairOptions {
  std::string target_path = "";           // the other language, line by line; empty: one table
  std::string held_out_target_path = "";  // likewise of what is evaluated
  std::vector<std::int64_t> buckets;      // lengths below the context, ascending
  bool operator==(const PairOptions&) const = default;
};

}  // namespace podium
