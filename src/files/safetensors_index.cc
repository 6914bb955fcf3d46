#include "files/safetensors_index.h"

#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "files/file_io.h"

namespace podium {

namespace fs = std::filesystem;

bool is_safetensors_index(const fs::path& path) {
  return path.filename().string().ends_with(".safetensors.index.json");
}

std::optional<fs::path> safetensors_of_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  return std::nullopt;
}

std::vector<SafetensorsShard> parse_safetensors_index(std::string_view text,
                                                      const std::string& source) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto require = [&](bool holds, const std::string& what) {
    PODIUM_REQUIRE(holds, ExitCode::kData, source, ": ", what,
                   "; it must be the index of safetensors files: {\"weight_map\": {\"TENSOR\": "
                   "\"FILE.safetensors\"}}");
  };
  require(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
          "it has no object \"weight_map\"");
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    require(file.is_string(), cat("the file of tensor \"", tensor, "\" is no text"));
    const auto& name = file.get_ref<const std::string&>();
    // Beside the index, and nowhere else.
    require(!name.empty() && fs::path(name).filename() == name,
            cat("\"", name, "\" is no name of a file beside it"));
    files[name].push_back(tensor);
  }
  require(!files.empty(), "it names no tensor");
  std::vector<SafetensorsShard> shards;
  for (auto& [file, tensors] : files) shards.push_back({file, std::move(tensors)});
  return shards;
}

std::vector<NamedTensor> read_safetensors_index(const fs::path& path) {
  const std::optional<std::string> text = read_text(path, std::uint64_t{64} << 20);
  PODIUM_REQUIRE(text.has_value(), ExitCode::kData, path.string(), ": no such file");
  std::vector<NamedTensor> all;
  for (const SafetensorsShard& shard : parse_safetensors_index(*text, path.string())) {
    const fs::path file = path.parent_path() / shard.file;
    std::error_code error;
    PODIUM_REQUIRE(fs::is_regular_file(file, error), ExitCode::kData, path.string(), ": its file ",
                   file.string(), " is missing; copy all of them");
    std::vector<NamedTensor> tensors = read_safetensors(file).tensors;
    for (const std::string& name : shard.tensors)
      PODIUM_REQUIRE(find_tensor(tensors, name) != nullptr, ExitCode::kData, file.string(),
                     " has no tensor \"", name, "\", which ", path.string(), " says it has");
    PODIUM_REQUIRE(tensors.size() == shard.tensors.size(), ExitCode::kData, file.string(), " has ",
                   tensors.size(), " tensors, and ", path.string(), " names ", shard.tensors.size(),
                   " of them; they are of different networks");
    for (NamedTensor& tensor : tensors) all.push_back(std::move(tensor));
  }
  return all;
}

}  // namespace podium
