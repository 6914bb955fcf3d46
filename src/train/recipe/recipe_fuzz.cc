// What a stranger's recipe may do: be refused by a UserError, or be read; and what is read is
// written so that it reads back the same. The text's last line, after a NUL, is an override.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "train/recipe/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (const std::size_t end = text.find('\0'); end != std::string::npos) {
    overrides.push_back(text.substr(end + 1));
    text.resize(end);
  }
  try {
    const podium::Recipe recipe = podium::parse_recipe(text, "fuzz", overrides);
    const std::string written = podium::to_toml(recipe);
    const std::string again = podium::to_toml(podium::parse_recipe(written, "again"));
    PODIUM_CHECK(again == written, written);
  } catch (const podium::UserError&) {
  }
  return 0;
}
