#include "cli/data/data_pictures.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/numerics/hash.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "cli/progress_line.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/pictures/formats/picture.h"
#include "data/pictures/pictures.h"
#include "files/byte_text.h"
#include "train/machine/memory.h"

namespace podium {
namespace {

std::unique_ptr<const RecordIndex> opened(const PictureArguments& arguments,
                                          bool* from_cache = nullptr) {
  ProgressLine line;
  auto index = index_pictures(
      split_data_name(arguments.name), arguments.data_dir,
      {.fresh = arguments.fresh,
       .check_files = true,
       .stop = StopToken(stop_request()),
       .progress = [&](std::int64_t pictures) { line(count_text(pictures, "picture")); }},
      from_cache);
  line.end();
  return index;
}

// A picture that cannot be read or decoded, by its number.
struct Problem {
  std::int64_t file = 0;
  std::string text;
  bool can_be_skipped = true;  // in training
};

struct Decoded {
  std::vector<Problem> problems;  // by file
  std::int64_t pixels = 0;
  // Of all labels and bytes, in the order of the index: neither times nor folders change it.
  std::uint64_t contents = 0;
};

// Decodes all, with all cores.
Decoded decode_all(const Records& records) {
  constexpr std::int64_t kAtOnce = 64;
  const StopToken stop(stop_request());
  ProgressLine line;
  ThreadPool threads(usable_cores());
  Decoded all;
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(records.count()));
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
          hashes[static_cast<std::size_t>(i)] =
              hash_append(static_cast<std::uint64_t>(records.label(i)), hash_bytes(bytes));
          PictureReader reader(bytes, records.name(i));
          reader.decode_all(reader.size().most_eighths(), memory);
          decoded += reader.size().height * reader.size().width;
          if (const std::string problem = records.problem(i); !problem.empty())
            own.push_back({i, cat(records.name(i), ": ", problem)});
        } catch (const BadPicture& error) {
          own.push_back({i, error.what()});
        } catch (const UserError& error) {
          own.push_back({i, error.what(), false});
        }
      }
      const std::lock_guard lock(mutex);
      all.problems.insert(all.problems.end(), own.begin(), own.end());
      all.pixels += decoded;
      done += end - first;
      line(cat(with_commas(done), " of ", count_text(records.count(), "picture"),
               all.problems.empty() ? std::string() : cat(", ", all.problems.size(), " bad")));
    });
  }
  line.end();
  stop.check();
  std::ranges::sort(all.problems, {}, &Problem::file);
  for (const std::uint64_t hash : hashes) all.contents = hash_append(all.contents, hash);
  return all;
}

}  // namespace

bool names_pictures(const std::string& name) {
  const DataName parts = split_data_name(name);
  return is_picture_data(parts.name) && !parts.path.empty();
}

ExitCode index_pictures(const PictureArguments& arguments) {
  PODIUM_REQUIRE(names_pictures(arguments.name), ExitCode::kUsage, "\"", arguments.name,
                 "\": pictures in files have an index, as in `podium data index folder:PHOTOS`");
  const auto start = Clock::now();
  bool from_cache = false;
  const auto index = opened(arguments, &from_cache);
  const auto records = index->all({});
  const std::string file = index->file();
  if (arguments.json) {
    nlohmann::ordered_json json = {{"folder", index->origin()},
                                   {"classes", records->classes()},
                                   {"pictures", records->count()},
                                   {"bytes", index->picture_bytes()}};
    for (const RecordIndex::Count& count : index->counts()) json[count.key] = count.count;
    json["index"] = file;
    json["from_cache"] = from_cache;
    json["memory_bytes"] = index->memory_bytes();
    json["seconds"] = seconds_since(start);
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << printable(index->origin()) << ": " << count_text(records->count(), "picture")
            << " of " << count_text(records->classes(), "class", "classes") << ", "
            << format_bytes(index->picture_bytes()) << "\n";
  for (const RecordIndex::Count& count : index->counts())
    if (count.count > 0)
      std::cout << with_commas(count.count) << " " << printable(count.text) << "\n";
  for (const std::string& note : index->notes()) std::cout << printable(note) << "\n";
  std::cout << (from_cache ? "the index was up to date" : "indexed") << " in "
            << fixed(seconds_since(start), 2) << " s, " << format_bytes(index->memory_bytes())
            << " of memory" << (file.empty() ? "" : cat("; kept as ", file)) << "\n";
  return ExitCode::kDone;
}

ExitCode verify_pictures(const PictureArguments& arguments) {
  const auto index = opened(arguments);
  const auto all = index->all({});
  const Records& records = *all;
  const auto start = Clock::now();
  const Decoded decoded = decode_all(records);
  const std::vector<Problem>& problems = decoded.problems;
  const double seconds = seconds_since(start);
  auto bad = nlohmann::ordered_json::array();
  for (const Problem& problem : problems) {
    complain(problem.text);
    bad.push_back({{"file", records.name(problem.file)}, {"problem", problem.text}});
  }
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"folder", index->origin()},
                                         {"pictures", records.count()},
                                         {"bad", bad},
                                         {"pixels", decoded.pixels},
                                         {"contents", hash_text(decoded.contents)},
                                         {"seconds", seconds}};
    std::cout << json_text(json, 2) << "\n";
  } else {
    std::cout << printable(index->origin()) << ": "
              << with_commas(records.count() - std::ssize(problems)) << " of "
              << count_text(records.count(), "picture decodes", "pictures decode") << ", "
              << fixed(seconds, 1) << " s; hash of labels and contents "
              << hash_text(decoded.contents) << "\n";
  }
  if (problems.empty()) return ExitCode::kDone;
  const bool can_be_skipped = std::ranges::all_of(problems, &Problem::can_be_skipped);
  say(cat("repair or remove the ", count_text(std::ssize(problems), "picture"), " above",
          can_be_skipped ? ", or train with data.on_error=skip, which skips pictures to train on; "
                           "those to evaluate must decode"
                         : ""));
  return ExitCode::kData;
}

ExitCode show_pictures(const PictureArguments& arguments) {
  const auto index = opened(arguments);
  const RecordParts parts = index->parts({});
  const ImageFields classes{.classes = parts.train->classes(),
                            .class_names = parts.train->class_names()};
  std::vector<std::int64_t> train(static_cast<std::size_t>(classes.classes)), test(train.size());
  for (std::int64_t i = 0; i < parts.train->count(); ++i)
    ++train[static_cast<std::size_t>(parts.train->label(i))];
  for (std::int64_t i = 0; i < parts.test->count(); ++i)
    ++test[static_cast<std::size_t>(parts.test->label(i))];
  const auto name_of = [&](std::size_t label) {
    return classes.class_name(static_cast<std::int64_t>(label));
  };
  if (arguments.json) {
    auto list = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < train.size(); ++i)
      list.push_back({{"name", name_of(i)}, {"train", train[i]}, {"test", test[i]}});
    const nlohmann::ordered_json json = {{"folder", index->origin()},
                                         {"train", parts.train->count()},
                                         {"test", parts.test->count()},
                                         {"classes", list}};
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << printable(index->origin()) << ": " << count_text(parts.train->count(), "picture")
            << " to train (" << parts.train->origin() << "), " << with_commas(parts.test->count())
            << " to evaluate (" << parts.test->origin() << ")\n";
  Table table({"LABEL", "CLASS", "TRAIN", "EVALUATE"});
  for (std::size_t i = 0; i < train.size(); ++i)
    table.add({cat(i), printable(name_of(i)), with_commas(train[i]), with_commas(test[i])});
  std::cout << table.text();
  for (const std::string& note : index->notes()) std::cout << printable(note) << "\n";
  for (const std::string& note : notes_of(parts)) std::cout << printable(note) << "\n";
  return ExitCode::kDone;
}

}  // namespace podium
