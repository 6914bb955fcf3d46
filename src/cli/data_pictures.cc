#include "cli/data_pictures.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "cli/progress_line.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/folder_records.h"
#include "data/picture.h"
#include "data/pictures.h"
#include "train/memory.h"

namespace podium {
namespace {

FolderIndex index_of(const PictureArguments& arguments, bool* from_cache = nullptr) {
  const DataName name = split_data_name(arguments.name);
  ProgressLine line;
  FolderIndex index = index_folder(
      find_pictures(name.path, arguments.data_dir),
      {.fresh = arguments.fresh,
       .stop = StopToken(stop_request()),
       .progress = [&](std::int64_t files) { line(cat(with_commas(files), " pictures")); }},
      from_cache);
  line.end();
  return index;
}

std::int64_t bytes_of(const FolderIndex& index) {
  return std::accumulate(index.sizes.begin(), index.sizes.end(), std::int64_t{0});
}

// A picture that cannot be decoded, by its number.
struct Problem {
  std::int64_t file = 0;
  std::string text;
};

// Decodes all, with all cores; returns the problems by file.
std::vector<Problem> decode_all(const FolderRecords& records, std::int64_t* pixels) {
  constexpr std::int64_t kAtOnce = 64;
  const StopToken stop(stop_request());
  ProgressLine line;
  ThreadPool threads(usable_cores());
  std::vector<Problem> problems;
  std::mutex mutex;
  std::int64_t done = 0;
  const std::int64_t parts = (records.count() + kAtOnce - 1) / kAtOnce;
  constexpr std::int64_t kPartsAtOnce = 1 << 20;
  for (std::int64_t begin = 0; begin < parts; begin += kPartsAtOnce) {
    const std::int64_t some = std::min(kPartsAtOnce, parts - begin);
    threads.run(static_cast<int>(some), [&](int part, int) {
      PicturePixels memory;
      std::vector<std::uint8_t> bytes;
      std::vector<Problem> own;
      std::int64_t decoded = 0;
      const std::int64_t first = (begin + part) * kAtOnce;
      const std::int64_t end = std::min(first + kAtOnce, records.count());
      for (std::int64_t i = first; i < end && !stop.requested(); ++i) {
        try {
          records.read(i, bytes);
          PictureReader reader(bytes, records.name(i));
          reader.decode(8, {0, 0, reader.height(), reader.width()}, memory);
          decoded += reader.height() * reader.width();
        } catch (const UserError& error) {
          own.push_back({i, error.what()});
        }
      }
      const std::lock_guard lock(mutex);
      problems.insert(problems.end(), own.begin(), own.end());
      *pixels += decoded;
      done += end - first;
      line(cat(with_commas(done), " of ", with_commas(records.count()), " pictures",
               problems.empty() ? std::string() : cat(", ", problems.size(), " bad")));
    });
  }
  line.end();
  stop.check();
  std::ranges::sort(problems, {}, &Problem::file);
  return problems;
}

}  // namespace

bool names_pictures(const std::string& name) { return !split_data_name(name).path.empty(); }

ExitCode index_pictures(const PictureArguments& arguments) {
  PODIUM_REQUIRE(names_pictures(arguments.name), ExitCode::kUsage, "\"", arguments.name,
                 "\": pictures in files have an index, as in `podium data index folder:PHOTOS`");
  const auto start = Clock::now();
  bool from_cache = false;
  const FolderIndex index = index_of(arguments, &from_cache);
  const std::string file = index_file_of(index.root);
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"folder", index.root},
                                         {"classes", index.class_names.size()},
                                         {"pictures", index.count()},
                                         {"bytes", bytes_of(index)},
                                         {"others", index.others},
                                         {"circles", index.circles},
                                         {"index", file},
                                         {"from_cache", from_cache},
                                         {"memory_bytes", index.memory_bytes()},
                                         {"seconds", seconds_since(start)}};
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << index.root << ": " << with_commas(index.count()) << " pictures of "
            << with_commas(std::ssize(index.class_names)) << " classes, "
            << format_bytes(bytes_of(index)) << "\n";
  if (index.others > 0) std::cout << with_commas(index.others) << " other files are ignored\n";
  if (index.circles > 0) std::cout << with_commas(index.circles) << " circular links are ignored\n";
  std::cout << (from_cache ? "the index was up to date" : "indexed") << " in "
            << fixed(seconds_since(start), 2) << " s, " << format_bytes(index.memory_bytes())
            << " of memory" << (file.empty() ? "" : cat("; kept as ", file)) << "\n";
  return ExitCode::kDone;
}

ExitCode verify_pictures(const PictureArguments& arguments) {
  const auto index = std::make_shared<const FolderIndex>(index_of(arguments));
  std::vector<std::uint32_t> all(static_cast<std::size_t>(index->count()));
  std::iota(all.begin(), all.end(), 0U);
  const FolderRecords records(index, std::move(all), index->root);
  const auto start = Clock::now();
  std::int64_t pixels = 0;
  const std::vector<Problem> problems = decode_all(records, &pixels);
  const double seconds = seconds_since(start);
  auto bad = nlohmann::ordered_json::array();
  for (const Problem& problem : problems) {
    complain(problem.text);
    bad.push_back({{"file", records.name(problem.file)}, {"problem", problem.text}});
  }
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"folder", index->root},
                                         {"pictures", records.count()},
                                         {"bad", bad},
                                         {"pixels", pixels},
                                         {"seconds", seconds}};
    std::cout << json_text(json, 2) << "\n";
  } else {
    std::cout << index->root << ": " << with_commas(records.count() - std::ssize(problems))
              << " of " << with_commas(records.count()) << " pictures decode, " << fixed(seconds, 1)
              << " s\n";
  }
  if (problems.empty()) return ExitCode::kDone;
  say(cat("repair or remove the ", problems.size(), problems.size() == 1 ? " picture" : " pictures",
          " above, or train with data.on_error=skip"));
  return ExitCode::kData;
}

ExitCode show_pictures(const PictureArguments& arguments) {
  const auto index = std::make_shared<const FolderIndex>(index_of(arguments));
  const FolderParts parts = parts_of(index, PictureOptions{}.held_out);
  std::vector<std::int64_t> train(index->class_names.size()), test(train.size());
  for (std::int64_t i = 0; i < parts.train->count(); ++i)
    ++train[static_cast<std::size_t>(parts.train->label(i))];
  for (std::int64_t i = 0; i < parts.test->count(); ++i)
    ++test[static_cast<std::size_t>(parts.test->label(i))];
  if (arguments.json) {
    auto classes = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < train.size(); ++i)
      classes.push_back({{"name", index->class_names[i]}, {"train", train[i]}, {"test", test[i]}});
    const nlohmann::ordered_json json = {{"folder", index->root},
                                         {"train", parts.train->count()},
                                         {"test", parts.test->count()},
                                         {"classes", classes}};
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << index->root << ": " << with_commas(parts.train->count()) << " pictures to train ("
            << parts.train->origin() << "), " << with_commas(parts.test->count())
            << " to evaluate (" << parts.test->origin() << ")\n";
  Table table({"LABEL", "CLASS", "TRAIN", "EVALUATE"});
  for (std::size_t i = 0; i < train.size(); ++i)
    table.add(
        {cat(i), printable(index->class_names[i]), with_commas(train[i]), with_commas(test[i])});
  std::cout << table.text();
  return ExitCode::kDone;
}

}  // namespace podium
