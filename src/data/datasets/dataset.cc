#include "data/datasets/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/cache_file.h"
#include "base/environment_text.h"
#include "base/error.h"
#include "base/plain_name.h"
#include "base/spread.h"
#include "base/words.h"
#include "data/datasets/dataset_list.h"
#include "data/datasets/dataset_registry.h"
#include "store/address.h"
#include "store/local_copy.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

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

struct Located {
  std::string place;               // FOLDER/NAME or FOLDER, of a folder that is searched
  std::vector<std::string> paths;  // as locate_files gives them
};

std::optional<Located> locate(const DatasetInfo& info, const std::string& data_dir) {
  for (const std::string& folder : dataset_folders(data_dir)) {
    for (const std::string& place : {(fs::path(folder) / info.name).string(), folder}) {
      const auto unpacked = unpacked_files(info, place);
      for (const std::vector<std::string>& paths : unpacked) {
        if (std::ranges::none_of(paths, &std::string::empty)) return Located{place, paths};
      }
      if (info.archive) {
        const std::string packed = (fs::path(place) / info.archive->name).string();
        std::error_code ignored;
        if (fs::exists(packed, ignored))
          return Located{place, std::vector<std::string>(info.files.size(), packed)};
      }
      if (!unpacked.empty()) return Located{place, unpacked[0]};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string to_string(Split split) { return split == Split::kTrain ? "train" : "test"; }

std::string DatasetInfo::class_name(std::int64_t label) const {
  PODIUM_CHECK(label >= 0 && label < classes, label);
  return class_names.empty() ? cat(label) : class_names.at(static_cast<std::size_t>(label));
}

namespace {

// Room for all that a program will register: entries stay where they are.
constexpr std::size_t kMostDatasets = 1024;

std::vector<DatasetInfo>& datasets() {
  static std::vector<DatasetInfo> list = [] {
    std::vector<DatasetInfo> all;
    all.reserve(kMostDatasets);
#define PODIUM_ADD_DATASET(name) all.push_back(name##_dataset());
    PODIUM_DATASET_LIST(PODIUM_ADD_DATASET)
#undef PODIUM_ADD_DATASET
    return all;
  }();
  return list;
}

// What a dataset of a program's own can get wrong.
void require_as_described(const DatasetInfo& info, Split split, const ImageSet& set) {
  const auto shape = [](const auto& of) {
    return cat(of.channels, " x ", of.height, " x ", of.width, " in ", of.classes, " classes");
  };
  PODIUM_REQUIRE(shape(set) == shape(info), ExitCode::kData, "dataset \"", info.name, "\": its ",
                 to_string(split), " split has images of ", shape(set), "; its description says ",
                 shape(info));
  set.require_usable(cat("dataset \"", info.name, "\", ", to_string(split), " split"));
}

}  // namespace

std::span<const DatasetInfo> dataset_list() { return datasets(); }

void register_dataset(DatasetInfo info) {
  const auto require = [&](bool condition, const std::string& text) {
    PODIUM_REQUIRE(condition, ExitCode::kUsage, "dataset \"", info.name, "\"", text);
  };
  require(is_plain_name(info.name),
          ": a name has letters, digits, '-', '_' and '.', and begins with one of the first two");
  require(info.name != kOwnData, ": this name is reserved for examples in memory; choose another");
  require(std::ranges::find(datasets(), info.name, &DatasetInfo::name) == datasets().end(),
          " is registered already; give it another name");
  require(info.load != nullptr, " has no function that loads it");
  require(info.channels >= 1 && info.height >= 1 && info.width >= 1,
          ": channels, height and width must be at least 1");
  require(info.classes >= 1 && info.classes <= kMostClasses,
          cat(": classes must be from 1 to ", kMostClasses));
  require(info.train_examples >= 1 && info.test_examples >= 1,
          ": train_examples and test_examples must be at least 1");
  require(
      info.class_names.empty() || info.class_names.size() == static_cast<std::size_t>(info.classes),
      cat(" names ", info.class_names.size(), " of its ", info.classes, " classes"));
  require(datasets().size() < kMostDatasets,
          cat(" is one more than the ", kMostDatasets, " datasets that a program can have"));
  datasets().push_back(std::move(info));
}

const DatasetInfo& find_dataset(const std::string& name) {
  for (const DatasetInfo& info : datasets()) {
    if (info.name == name) return info;
  }
  PODIUM_REQUIRE(name != kOwnData, ExitCode::kData, "data = \"", kOwnData,
                 "\": the examples are those of the program that trained this run, so only that "
                 "program can resume or evaluate it; `podium predict` works without them");
  std::vector<std::string> known;
  for (const DatasetInfo& info : datasets()) known.push_back(info.name);
  throw UserError(cat("unknown dataset \"", name, "\"; did you mean \"", nearest_word(name, known),
                      "\"? Known: ", join_words(known)));
}

ImageSet load_dataset(const std::string& name, Split split, const DatasetOptions& options) {
  const DatasetInfo& info = find_dataset(name);
  ImageSet set = info.load(info, split, options);
  require_as_described(info, split, set);
  set.class_names = info.class_names;
  return set;
}

bool is_archive(const DatasetInfo& info, const std::string& path) {
  return info.archive && fs::path(path).filename().string().starts_with(info.archive->name);
}

namespace {

// `n` examples; index_of(i) is where the i-th lies in the set.
template <typename IndexOf>
ImageSet copy_of(const ImageSource& set, std::int64_t n, const IndexOf& index_of) {
  ImageSet part(static_cast<const ImageFields&>(set));
  part.count = n;
  const auto size = static_cast<std::size_t>(set.image_bytes());
  part.pixels.reserve(static_cast<std::size_t>(n) * size);
  std::vector<std::uint8_t> memory(size);
  for (std::int64_t i = 0; i < n; ++i) {
    const ImageSource::Example example = set.read_image(index_of(i), nullptr, memory.data());
    part.pixels.insert(part.pixels.end(), example.pixels, example.pixels + size);
    if (set.has_labels()) part.labels.push_back(example.label);
  }
  return part;
}

}  // namespace

ImageSet part_of(const ImageSource& set, std::int64_t first, std::int64_t n) {
  PODIUM_CHECK(first >= 0 && n >= 0 && first + n <= set.count, first, " ", n);
  return copy_of(set, n, [&](std::int64_t i) { return first + i; });
}

ImageSet sample_of(const ImageSource& set, std::int64_t n) {
  PODIUM_CHECK(n >= 0 && n <= set.count, n);
  return copy_of(set, n, [&](std::int64_t i) { return spread_over(set.count, n, i); });
}

void lengthen(std::vector<std::uint8_t>& bytes, std::size_t size, StopToken stop) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 26;
  bytes.reserve(size);
  while (bytes.size() < size) {
    stop.check();
    bytes.resize(std::min(size, bytes.size() + kAtOnce));
  }
}

std::vector<std::string> dataset_folders(const std::string& data_dir) {
  std::vector<std::string> folders;
  for (const std::string& folder :
       {data_dir, environment_text("PODIUM_DATA"), std::string("../shared/data"), cache_folder()}) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

std::vector<std::string> places_of(const std::string& path, const std::string& data_dir) {
  if (is_remote(path)) return {local_path(path)};
  std::error_code error;
  PODIUM_REQUIRE(data_dir.empty() || fs::is_directory(data_dir, error), ExitCode::kData,
                 "--data-dir ", data_dir, ": no such folder; name one that contains ", path,
                 ", or omit the flag");
  std::vector<std::string> places = {path};
  if (fs::path(path).is_relative()) {
    for (const std::string& folder : dataset_folders(data_dir))
      places.push_back((fs::path(folder) / path).string());
    // A folder that is named is asked first.
    if (!data_dir.empty()) std::swap(places[0], places[1]);
  }
  return places;
}

std::vector<std::vector<std::string>> unpacked_files(const DatasetInfo& info,
                                                     const std::string& place) {
  std::vector<std::string> folders = {place};
  if (info.archive)
    folders.insert(folders.begin(), (fs::path(place) / info.archive->folder).string());
  std::vector<std::vector<std::string>> found;
  for (const std::string& folder : folders) {
    std::vector<std::string> paths;
    for (const DatasetFile& file : info.files) paths.push_back(file_in(folder, file.name));
    if (!std::ranges::all_of(paths, &std::string::empty)) found.push_back(std::move(paths));
  }
  return found;
}

std::optional<std::vector<std::string>> locate_files(const DatasetInfo& info,
                                                     const std::string& data_dir) {
  const std::optional<Located> located = locate(info, data_dir);
  return located ? std::optional(located->paths) : std::nullopt;
}

std::vector<std::string> require_any_file(const DatasetInfo& info, const DatasetOptions& options) {
  PODIUM_REQUIRE(options.data_dir.empty() || is_folder(options.data_dir), ExitCode::kData,
                 "--data-dir ", options.data_dir, ": no such folder; name one that contains ",
                 info.name, "'s files, or omit the flag");
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
  const std::vector<std::string> found = require_any_file(info, options);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    if (info.files[i].split != split) continue;
    PODIUM_REQUIRE(!found[i].empty(), ExitCode::kData,
                   missing_file_text(info.files[i], found, fetch_remedy(info, options)));
    paths.push_back(found[i]);
  }
  return paths;
}

std::string missing_file_text(const DatasetFile& file, const std::vector<std::string>& paths,
                              const std::string& remedy) {
  const fs::path present = *std::ranges::find_if_not(paths, &std::string::empty);
  return cat((present.parent_path() / file.name).string(), ": missing, also as .gz, although ",
             present.filename().string(), " is present; ", remedy);
}

std::string fetch_remedy(const DatasetInfo& info, const DatasetOptions& options) {
  const std::optional<Located> located = locate(info, options.data_dir);
  fs::path folder = located ? located->place : options.data_dir;
  // Files are brought to FOLDER/NAME, which is found before FOLDER.
  if (folder.filename() == info.name) folder = folder.parent_path();
  return cat("get an intact copy with `podium data fetch ", info.name, " --data-dir ",
             folder.empty() ? "." : folder.string(), "`");
}

}  // namespace podium
