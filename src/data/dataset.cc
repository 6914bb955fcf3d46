#include "data/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "data/dataset_list.h"
#include "data/fetch.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// NAME or NAME.gz in `folder`; empty when neither is there. Unpacked first: it loads faster.
std::string file_in(const std::string& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const std::string path = (fs::path(folder) / (name + suffix)).string();
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
  }
  return "";
}

// The number of edits (insert, delete, replace) between two words.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string to_string(Split split) { return split == Split::kTrain ? "train" : "test"; }

std::span<const DatasetInfo> dataset_list() {
#define PODIUM_DATASET_VALUE(name) name##_dataset(),
  static const std::vector<DatasetInfo> list = {PODIUM_DATASET_LIST(PODIUM_DATASET_VALUE)};
#undef PODIUM_DATASET_VALUE
  return list;
}

const DatasetInfo& find_dataset(const std::string& name) {
  const std::span<const DatasetInfo> list = dataset_list();
  for (const DatasetInfo& info : list) {
    if (info.name == name) return info;
  }
  const auto nearest =
      std::min_element(list.begin(), list.end(), [&](const DatasetInfo& a, const DatasetInfo& b) {
        return edits(name, a.name) < edits(name, b.name);
      });
  std::string known;
  for (const DatasetInfo& info : list) known += (known.empty() ? "" : ", ") + info.name;
  throw UserError(
      cat("unknown dataset \"", name, "\"; did you mean \"", nearest->name, "\"? Known: ", known));
}

ImageSet load_dataset(const std::string& name, Split split, const DatasetOptions& options) {
  const DatasetInfo& info = find_dataset(name);
  ImageSet set = info.load(info, split, options);
  PODIUM_CHECK(set.count > 0 && set.labels.size() == static_cast<std::size_t>(set.count), name);
  PODIUM_CHECK(set.pixels.size() == static_cast<std::size_t>(set.count * set.image_bytes()), name);
  return set;
}

std::string cache_folder() {
  const std::string xdg = environment("XDG_CACHE_HOME");
  if (!xdg.empty()) return (fs::path(xdg) / "podium").string();
  const std::string home = environment("HOME");
  return home.empty() ? "" : (fs::path(home) / ".cache" / "podium").string();
}

std::vector<std::string> dataset_folders(const std::string& data_dir) {
  std::vector<std::string> folders;
  for (const std::string& folder :
       {data_dir, environment("PODIUM_DATA"), std::string("../shared/data"), cache_folder()}) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

std::optional<std::vector<std::string>> locate_files(const DatasetInfo& info,
                                                     const std::string& data_dir) {
  for (const std::string& folder : dataset_folders(data_dir)) {
    for (const std::string& place : {(fs::path(folder) / info.name).string(), folder}) {
      std::vector<std::string> paths;
      for (const DatasetFile& file : info.files) paths.push_back(file_in(place, file.name));
      const bool any =
          std::any_of(paths.begin(), paths.end(), [](const std::string& p) { return !p.empty(); });
      if (any) return paths;
    }
  }
  return std::nullopt;
}

std::vector<std::string> require_any_file(const DatasetInfo& info, const DatasetOptions& options) {
  PODIUM_REQUIRE(options.data_dir.empty() || is_folder(options.data_dir), ExitCode::kData,
                 "--data-dir ", options.data_dir, ": no such folder; name one that holds ",
                 info.name, "'s files, or leave it out");
  if (auto found = locate_files(info, options.data_dir)) return *found;
  std::string text = cat(info.name, ": none of its files was found. Searched:");
  for (const std::string& folder : dataset_folders(options.data_dir)) {
    text += cat("\n  ", (fs::path(folder) / info.name).string(), "\n  ", folder);
  }
  text += cat("\nDownload them with `podium data fetch ", info.name,
              "`, or name their folder with --data-dir or $PODIUM_DATA.");
  throw UserError(text, ExitCode::kData);
}

std::vector<std::string> require_files(const DatasetInfo& info, Split split,
                                       const DatasetOptions& options) {
  if (options.allow_download && !locate_files(info, options.data_dir)) {
    fetch_dataset(info.name, "", {});
  }
  const std::vector<std::string> found = require_any_file(info, options);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    if (info.files[i].split != split) continue;
    if (found[i].empty()) {
      const std::string& present = *std::find_if(
          found.begin(), found.end(), [](const std::string& path) { return !path.empty(); });
      throw UserError(
          cat((fs::path(present).parent_path() / info.files[i].name).string(),
              ": missing, packed (.gz) or not, while ", fs::path(present).filename().string(),
              " is there; ", fetch_remedy(info, present)),
          ExitCode::kData);
    }
    paths.push_back(found[i]);
  }
  return paths;
}

std::string fetch_remedy(const DatasetInfo& info, const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  if (folder.filename() == info.name) folder = folder.parent_path();
  return cat("get an intact copy with `podium data fetch ", info.name, " --data-dir ",
             folder.empty() ? "." : folder.string(), "`");
}

}  // namespace podium
