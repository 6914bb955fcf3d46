// For tests of recipes: the shortest one, and what is wrong with others.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "train/recipe/recipe.h"

namespace podium {

// Five lines.
inline constexpr const char* kMinimal =
    "model = \"mnist\"\n"
    "data = \"glyphs\"\n"
    "batch = 256\n"
    "replicas = 8\n"
    "epochs = 2\n";

// What parse_recipe() has against a text; "accepted" where it has nothing.
inline std::string refusal(const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(text, "x.toml", overrides);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "accepted";
}

inline std::string minimal_and(const std::string& more) { return kMinimal + more; }

}  // namespace podium
