// podium data: list, fetch, verify and show datasets.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/data/data_page.h"
#include "cli/data/data_pictures.h"
#include "cli/data/data_tokenize.h"
#include "cli/output_file.h"
#include "cli/progress_line.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/datasets/dataset.h"
#include "data/datasets/fetch.h"
#include "files/byte_text.h"
#include "train/machine/memory.h"
#include "train/run/run.h"

namespace podium {
namespace {

struct DataArguments {
  std::string name, data_dir, split = "train", out;
  std::vector<std::string> overrides;
  std::int64_t first = 0, count = 0, epoch = 0;  // count 0: not given
  bool json = false, force = false, fresh = false;

  PictureArguments pictures() const {
    return {.name = name, .data_dir = data_dir, .json = json, .fresh = fresh};
  }
};

std::string size_text(const DatasetInfo& info) {
  return cat(info.channels, " x ", info.height, " x ", info.width);
}

ExitCode list(const DataArguments& arguments) {
  Table table({"DATASET", "IMAGES", "CLASSES", "TRAIN", "TEST", "WHERE", ""});
  auto json = nlohmann::ordered_json::array();
  for (const DatasetInfo& info : dataset_list()) {
    std::string where = "generated, needs no files", folder;
    bool here = true;
    if (!info.files.empty()) {
      const auto files = locate_files(info, arguments.data_dir);
      here = files && std::none_of(files->begin(), files->end(),
                                   [](const std::string& path) { return path.empty(); });
      if (files) {
        folder = std::filesystem::path(*std::find_if(files->begin(), files->end(),
                                                     [](const auto& p) { return !p.empty(); }))
                     .parent_path()
                     .string();
      }
      where = here    ? folder
              : files ? cat(folder, ", incomplete")
                      : cat("not found; run podium data fetch ", info.name);
    }
    table.add({info.name, size_text(info), cat(info.classes), with_commas(info.train_examples),
               with_commas(info.test_examples), where, info.description});
    json.push_back({{"name", info.name},
                    {"description", info.description},
                    {"channels", info.channels},
                    {"height", info.height},
                    {"width", info.width},
                    {"classes", info.classes},
                    {"train_examples", info.train_examples},
                    {"test_examples", info.test_examples},
                    {"drawn", info.files.empty()},
                    {"present", here},
                    {"folder", folder}});
  }
  std::cout << (arguments.json ? json_text(json, 2) + "\n" : table.text());
  return ExitCode::kDone;
}

void show_download(ProgressLine& line, const std::string& file, std::int64_t bytes,
                   std::int64_t total) {
  const std::string share =
      total > 0 ? cat(" of ", format_bytes(total), ", ", 100 * bytes / total, "%") : "";
  line(cat(file, "  ", format_bytes(bytes), share), bytes == total);
}

ExitCode fetch(const DataArguments& arguments) {
  const DatasetInfo& info = find_dataset(arguments.name);
  if (info.files.empty()) say(cat(info.name, " is generated; there is nothing to fetch"));
  ProgressLine line;
  const std::vector<FetchedFile> files =
      fetch_dataset(arguments.name, arguments.data_dir,
                    [&](const std::string& file, std::int64_t bytes, std::int64_t total) {
                      show_download(line, file, bytes, total);
                    });
  line.end();
  auto json = nlohmann::ordered_json::array();
  for (const FetchedFile& file : files) {
    json.push_back({{"path", file.path}, {"downloaded", file.downloaded}});
    if (!arguments.json) {
      std::cout << printable(file.path) << (file.downloaded ? "  downloaded" : "  already present")
                << ", intact\n";
    }
  }
  if (arguments.json) std::cout << json_text(json, 2) << "\n";
  return ExitCode::kDone;
}

ExitCode index(const DataArguments& arguments) { return index_pictures(arguments.pictures()); }

ExitCode verify(const DataArguments& arguments) {
  if (names_pictures(arguments.name)) return verify_pictures(arguments.pictures());
  const DatasetInfo& info = find_dataset(arguments.name);
  if (info.files.empty()) say(cat(info.name, " is generated; it has no files to verify"));
  ExitCode code = ExitCode::kDone;
  auto json = nlohmann::ordered_json::array();
  for (const FileCheck& check :
       verify_dataset(arguments.name, DatasetOptions{.data_dir = arguments.data_dir})) {
    if (!check.intact) {
      complain(check.problem);
      code = ExitCode::kData;
    } else if (!arguments.json) {
      std::cout << check.path << "  intact\n";
    }
    json.push_back({{"file", check.file},
                    {"path", check.path},
                    {"intact", check.intact},
                    {"problem", check.problem}});
  }
  if (arguments.json) std::cout << json_text(json, 2) << "\n";
  return code;
}

// A picture in characters, two columns a pixel.
void draw(const ImageSet& set, std::int64_t index) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const std::uint8_t* image = set.pixels.data() + index * set.image_bytes();
  const std::int64_t plane = set.height * set.width;
  for (std::int64_t y = 0; y < set.height; ++y) {
    std::string row;
    for (std::int64_t x = 0; x < set.width; ++x) {
      std::int64_t sum = 0;
      for (std::int64_t c = 0; c < set.channels; ++c) sum += image[c * plane + y * set.width + x];
      const auto shade = static_cast<std::size_t>(
          sum * static_cast<std::int64_t>(kShades.size() - 1) / (255 * set.channels));
      row += std::string(2, kShades[shade]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    std::cout << row << "\n";
  }
}

ExitCode show(const DataArguments& arguments) {
  if (!arguments.out.empty()) {
    return write_data_page({.recipe = {arguments.name, arguments.overrides},
                            .out = arguments.out,
                            .data_dir = arguments.data_dir,
                            .split = arguments.split,
                            .first = arguments.first,
                            .count = arguments.count != 0 ? arguments.count : 8,
                            .epoch = arguments.epoch,
                            .json = arguments.json,
                            .force = arguments.force});
  }
  if (names_pictures(arguments.name)) return show_pictures(arguments.pictures());
  const Split split = arguments.split == "test" ? Split::kTest : Split::kTrain;
  const ImageSet set =
      load_dataset(arguments.name, split, DatasetOptions{.data_dir = arguments.data_dir});
  PODIUM_REQUIRE(arguments.first < set.count, ExitCode::kUsage, "--first ", arguments.first, ": ",
                 arguments.name, " has ", set.count, " ", arguments.split,
                 " examples, counted from 0");
  std::vector<std::int64_t> classes(static_cast<std::size_t>(set.classes));
  for (const std::int32_t label : set.labels) ++classes[static_cast<std::size_t>(label)];
  std::int64_t sum = 0, squares = 0;
  for (const std::uint8_t pixel : set.pixels) sum += pixel, squares += pixel * pixel;
  const auto pixels = static_cast<double>(set.pixels.size());
  const double mean = static_cast<double>(sum) / pixels;
  const double deviation = std::sqrt(static_cast<double>(squares) / pixels - mean * mean);
  if (arguments.json) {
    const nlohmann::ordered_json json = {
        {"name", arguments.name},      {"split", arguments.split}, {"source", set.source},
        {"count", set.count},          {"channels", set.channels}, {"height", set.height},
        {"width", set.width},          {"class_counts", classes},  {"mean", mean / 255},
        {"deviation", deviation / 255}};
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << arguments.name << ", " << arguments.split << ": " << with_commas(set.count)
            << " images of " << set.channels << " x " << set.height << " x " << set.width
            << ", from " << set.source << "\npixels over 255: mean " << fixed(mean / 255, 4)
            << ", deviation " << fixed(deviation / 255, 4) << "\nexamples of each class:";
  for (const std::int64_t count : classes) std::cout << " " << count;
  std::cout << "\n";
  const DatasetInfo& info = find_dataset(arguments.name);
  const std::int64_t count = arguments.count != 0 ? arguments.count : 3;
  for (std::int64_t i = arguments.first; i < set.count && i - arguments.first < count; ++i) {
    const std::int64_t label = set.labels[static_cast<std::size_t>(i)];
    std::cout << "\nexample " << i << ", label " << label;
    if (!info.class_names.empty()) std::cout << ", " << info.class_name(label);
    std::cout << "\n";
    draw(set, i);
  }
  return ExitCode::kDone;
}

}  // namespace

void add_data_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<DataArguments>();
  CLI::App* data = add_command(app, line, "data", "Lists, downloads, verifies and shows datasets",
                               {"podium data list", "podium data fetch mnist"}, nullptr);
  const auto add = [&](const std::string& name, const std::string& summary,
                       const std::vector<std::string>& examples,
                       ExitCode (*run)(const DataArguments&)) {
    CLI::App* command = add_command(*data, line, name, summary, examples,
                                    [arguments, run] { return run(*arguments); });
    if (name != "list") {
      command
          ->add_option("DATASET", arguments->name,
                       name == "show"
                           ? "A dataset from `podium data list`, or pictures in files as "
                             "of `podium data index`; with --out, a recipe"
                       : name == "fetch" ? "A dataset from `podium data list`"
                       : name == "index" ? "folder:PATH, with a folder of pictures for each class; "
                                           "tar:PATTERN or tfrecord:PATTERN, with shards"
                                         : "A dataset from `podium data list`, or pictures in "
                                           "files as of `podium data index`")
          ->required();
    }
    command->add_option(
        "--data-dir", arguments->data_dir,
        name == "fetch"
            ? "Folder to download to; default: the user's cache folder"
            : "Folder to search first, before $PODIUM_DATA, ../shared/data and the cache");
    command->add_flag("--json", arguments->json, "Write JSON");
    return command;
  };
  add("list", "Lists the datasets and the places of their files",
      {"podium data list", "podium data list --json"}, list);
  add("fetch", "Downloads and checks the files of a dataset; resumes partial downloads",
      {"podium data fetch mnist", "podium data fetch mnist --data-dir data"}, fetch)
      ->footer(
          "Environment:\n  PODIUM_DOWNLOAD_BASE  Address of the folder to download from, instead "
          "of the "
          "dataset's own\n                        addresses: BASE/DATASET/FILE, then BASE/FILE");
  add("verify", "Checks that a dataset's files are intact, or decodes every picture in files",
      {"podium data verify mnist", "podium data verify folder:PHOTOS"}, verify);
  add("index", "Indexes pictures in files; a run otherwise does this before its first step",
      {"podium data index folder:PHOTOS", "podium data index 'tar:PHOTOS/*.tar' --fresh"}, index)
      ->add_flag("--fresh", arguments->fresh, "Make the index anew, even if no file has changed");
  CLI::App* shown =
      add("show", "Shows the contents of a dataset, or draws a page of a recipe's augmented images",
          {"podium data show glyphs --split test --first 10 --count 5",
           "podium data show mnist-augmented --out page.png augment.rotate_degrees=30"},
          show);
  shown->add_option("--split", arguments->split, "train or test")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  shown->add_option("--first", arguments->first, "First image to show, counted from 0")
      ->check(at_least(0), "NONNEGATIVE");
  shown
      ->add_option("--count", arguments->count,
                   "Number of images to show; default: 3, or 8 on a page")
      ->check(at_least(1), "POSITIVE");
  CLI::Option* out =
      shown->add_option("--out", arguments->out,
                        "PNG file for a page: each original beside its versions in 8 epochs");
  shown
      ->add_option("--epoch", arguments->epoch, "With --out: first of these epochs, counted from 0")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000000}))
      ->needs(out);
  add_force_flag(*shown, arguments->force);
  shown
      ->add_option("OVERRIDE", arguments->overrides,
                   "With --out: key=value, overrides a key of the recipe")
      ->needs(out);
  add_tokenize_command(*data, line);
}

}  // namespace podium
