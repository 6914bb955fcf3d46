#include "train/run/published_file.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/environment_text.h"
#include "base/error.h"
#include "base/words.h"
#include "files/file_io.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// $VARIABLE, else $XDG_CACHE_HOME or ~/.cache with `name`.
fs::path home_of(const char* variable, const char* name) {
  if (const std::string named = environment_text(variable); !named.empty()) return named;
  const std::string cache = environment_text("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(environment_text("HOME")) / ".cache" : fs::path(cache)) / name;
}

// NAME-0676ba61.pth: the end is a part of the file's hash.
std::string torchvision_file(const std::string& name) {
  const fs::path folder = home_of("TORCH_HOME", "torch") / "hub" / "checkpoints";
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    const std::string rest = file.starts_with(name + "-") ? file.substr(name.size() + 1) : "";
    const std::string hash = rest.substr(0, rest.find('.'));
    if (rest.ends_with(".pth") && !hash.empty() &&
        hash.find_first_not_of("0123456789abcdef") == std::string::npos)
      found.push_back(entry->path().string());
  }
  std::ranges::sort(found);
  PODIUM_REQUIRE(!found.empty(), ExitCode::kData, "torchvision/", name, ": there is no ",
                 (folder / name).string(),
                 "-*.pth; torchvision downloads it (torchvision.models.get_model(\"", name,
                 "\", weights=\"DEFAULT\")), or name a file");
  PODIUM_REQUIRE(found.size() == 1, ExitCode::kData, "torchvision/", name,
                 " may be each of these; name one:\n  ", join_words(found, "\n  "));
  return found[0];
}

std::string huggingface_folder(const std::string& name) {
  std::string folder_name = "models--" + name;
  if (const std::size_t slash = folder_name.find('/'); slash != std::string::npos)
    folder_name.replace(slash, 1, "--");
  const fs::path folder = home_of("HF_HOME", "huggingface") / "hub" / folder_name;
  std::string commit = read_text(folder / "refs" / "main").value_or("");
  while (!commit.empty() && commit.back() <= ' ') commit.pop_back();
  const fs::path snapshot = folder / "snapshots" / commit;
  std::error_code error;
  PODIUM_REQUIRE(!commit.empty() && fs::is_directory(snapshot, error), ExitCode::kData,
                 "huggingface/", name, ": there is no snapshot in ", folder.string(),
                 "; huggingface-cli download ", name, " makes one, or name a file");
  return snapshot.string();
}

}  // namespace

std::string published_file(const std::string& name) {
  std::error_code error;
  constexpr std::string_view kTorchvision = "torchvision/", kHuggingFace = "huggingface/";
  if (fs::exists(name, error)) return name;
  if (name.starts_with(kTorchvision)) return torchvision_file(name.substr(kTorchvision.size()));
  if (name.starts_with(kHuggingFace)) return huggingface_folder(name.substr(kHuggingFace.size()));
  return name;
}

}  // namespace podium
