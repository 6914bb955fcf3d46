// Tensors in several safetensors files, as Hugging Face's tools write large networks: a JSON file
// with the name of each tensor and that of its file beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/safetensors.h"

namespace podium {

// Whether a file's name is that of such an index: `model.safetensors.index.json`.
bool is_safetensors_index(const std::filesystem::path& path);
// Of a folder, the index or the one file, as Hugging Face's tools name them; nothing: it has none.
std::optional<std::filesystem::path> safetensors_of_folder(const std::filesystem::path& folder);

// For each file, in the order of their names, the tensors that it must have. Throws
// UserError(kData), which begins with `source`, unless the text is such an index, whose files lie
// beside it.
struct SafetensorsShard {
  std::string file;
  std::vector<std::string> tensors;
};
std::vector<SafetensorsShard> parse_safetensors_index(std::string_view text,
                                                      const std::string& source);

// All tensors of the files. Throws UserError(kData) also where a file is missing or damaged, or has
// other tensors than the index says.
std::vector<NamedTensor> read_safetensors_index(const std::filesystem::path& path);

}  // namespace podium
