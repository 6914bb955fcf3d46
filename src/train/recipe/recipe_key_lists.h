// What the lists of a recipe's keys share; included by these alone.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "train/recipe/recipe_keys.h"

namespace podium {

inline constexpr double kMostExamples = 1e9;
inline constexpr double kMostSteps =
    4294967295.0;  // a step is a 32-bit counter of the random numbers

inline constexpr NumberRange at_least(double least) { return {.least = least}; }
inline constexpr NumberRange above(double least) { return {.least = least, .least_open = true}; }
inline constexpr NumberRange between(double least, double most) {
  return {.least = least, .most = most};
}
inline constexpr NumberRange below_one() { return {.least = 0, .most = 1, .most_open = true}; }

// Where a member lies, as a field of a key.
#define PODIUM_RECIPE_FIELD(member) field_at([](Recipe & r) -> auto& { return r.member; })

template <typename Access>
RecipeField field_at(Access access) {
  using Member = std::remove_reference_t<std::invoke_result_t<Access, Recipe&>>;
  return FieldOf<Member>(std::move(access));
}

// In recipe_key_images.cc: [data], [normalise] and [augment].
std::vector<RecipeKey> data_keys();
std::vector<RecipeKey> normalise_keys();
std::vector<RecipeKey> augment_keys();
// In recipe_key_network.cc: [network].
std::vector<RecipeKey> network_keys();

}  // namespace podium
