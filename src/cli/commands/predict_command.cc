// podium predict: what a run's model says of the rows of a table, sees in pictures or hears in
// recordings.
// Pictures are read and predicted many at a time; a file that cannot be read is named, and the
// others are answered.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/commands/predict_rows.h"
#include "cli/output_file.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/pictures/formats/image_file.h"
#include "data/pictures/pictures.h"
#include "data/sentences/sentences.h"
#include "data/sounds/sounds.h"
#include "data/source/own_files.h"
#include "data/table/table.h"
#include "data/text/utf8.h"
#include "train/predict/predictor.h"
#include "train/run/run_text.h"

namespace podium {
namespace {

struct PredictArguments {
  std::string run, step, out;
  std::vector<std::string> files, texts;
  Placement placement;
  std::int64_t top = 2;
  bool json = false, force = false;
};

// A file named on the command line: its pictures, or why there are none.
struct PictureFile {
  ImageSet set;
  std::string problem;
};

// Files that are read before their pictures are predicted.
constexpr std::size_t kFilesAtOnce = 4096;

// A picture of any size, as evaluation sees those that the network was trained on.
ImageSet read_photograph(const std::string& path, const CropOptions& crop) {
  ImageSet set({.count = 1, .channels = 3, .height = crop.size, .width = crop.size});
  set.pixels.resize(static_cast<std::size_t>(set.image_bytes()));
  make_example(read_whole_file(path), path, crop, nullptr, set.pixels.data());
  return set;
}

std::vector<PictureFile> read_files(std::span<const std::string> paths, const Predictor& predictor,
                                    ThreadPool& threads) {
  const Shape& image = predictor.image_shape();
  const Recipe& recipe = predictor.recipe();
  const CropOptions crop = crop_of(recipe.pictures, recipe.augment);
  std::vector<PictureFile> files(paths.size());
  threads.run(static_cast<int>(paths.size()), [&](int part, int) {
    const auto i = static_cast<std::size_t>(part);
    try {
      files[i].set = has_pictures(recipe) ? read_photograph(paths[i], crop)
                                          : read_image_file(paths[i], image[0], image[1], image[2]);
    } catch (const UserError& error) {
      files[i].problem = error.what();
    }
  });
  return files;
}

// The pictures of all files, one after the other.
ImageSet joined(std::vector<PictureFile>& files, const Shape& image) {
  ImageSet all({.channels = image[0], .height = image[1], .width = image[2], .source = "pictures"});
  for (PictureFile& file : files) {
    all.count += file.set.count;
    all.pixels.insert(all.pixels.end(), file.set.pixels.begin(), file.set.pixels.end());
    file.set.pixels = {};
  }
  return all;
}

// Writes down what the network says of each example, which `kind` names: "image".
class Answers {
 public:
  Answers(const Predictor& predictor, std::int64_t top, std::string kind)
      : predictor_(predictor),
        kind_(std::move(kind)),
        top_(static_cast<std::size_t>(std::min(top, predictor.target().below))),
        table_(heads(kind_, top_)) {}

  void refuse(const std::string& example, const std::string& problem) {
    complain(problem);
    ++refused_;
    json_.push_back({{kind_, example}, {"error", problem}});
  }

  void add(const std::string& example, std::span<const float> logits) {
    if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) {
      refuse(example, cat(example, ": the network's logits are not finite, so this ", kind_,
                          " is not classified"));
      return;
    }
    const std::vector<double> p = probabilities(logits);
    const std::vector<std::int64_t> order = ranking(logits);
    auto best = nlohmann::ordered_json::array();
    std::string next;
    for (std::size_t i = 0; i < top_; ++i) {
      const auto label = static_cast<std::size_t>(order[i]);
      const std::string name = word_of(predictor_.target(), order[i]);
      best.push_back({{"class", order[i]},
                      {"name", name},
                      {"probability", p[label]},
                      {"logit", logits[label]}});
      if (i > 0) next += cat(i > 1 ? ", " : "", name, " (", percent(p[label]), ")");
    }
    const std::string first = word_of(predictor_.target(), order[0]);
    const double share = p[static_cast<std::size_t>(order[0])];
    std::vector<std::string> row = {example, first, percent(share)};
    if (top_ > 1) row.push_back(next);
    table_.add(row);
    json_.push_back({{kind_, example},
                     {"class", order[0]},
                     {"name", first},
                     {"probability", share},
                     {"top", best},
                     {"probabilities", p},
                     {"logits", std::vector<float>(logits.begin(), logits.end())}});
    ++answered_;
  }

  std::string json() const { return json_text(json_) + "\n"; }
  std::string text() const { return answered_ > 0 ? table_.text() : ""; }
  std::int64_t answered() const { return answered_; }
  std::int64_t refused() const { return refused_; }

 private:
  static std::vector<std::string> heads(std::string kind, std::size_t top) {
    std::ranges::transform(kind, kind.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
    std::vector<std::string> all = {kind, "CLASS", "PROBABILITY"};
    if (top > 1) all.emplace_back("NEXT");
    return all;
  }

  const Predictor& predictor_;
  std::string kind_;  // a key of JSON
  std::size_t top_;
  Table table_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::int64_t answered_ = 0, refused_ = 0;
};

// Sentences of the command line.
ExitCode predict_texts(const PredictArguments& arguments, Predictor& predictor) {
  const Recipe& recipe = predictor.recipe();
  PODIUM_REQUIRE(has_sentences(recipe), ExitCode::kUsage, "--text is for a run on sentences, and ",
                 arguments.run, " is one on ", to_text(predictor.fields()));
  PODIUM_REQUIRE(arguments.files.empty() && arguments.out.empty(), ExitCode::kUsage,
                 "--text stands for a file, and its answers go to standard output; leave out the "
                 "file and --out");
  Cells cells{.file = "--text", .names = {recipe.text.text_column}};
  for (const std::string& text : arguments.texts) {
    cells.cells.push_back(as_utf8(text));
    cells.lines.push_back(std::ssize(cells.cells));
  }
  const auto tokenizer = tokenizer_of(recipe, predictor.fields());
  const RowSource rows = sentences_to_predict(cells, recipe.text, predictor.fields(), *tokenizer);
  const Tensor logits = predictor.predict(rows);
  const auto classes = static_cast<std::size_t>(predictor.target().below);
  Answers answers(predictor, arguments.top, "text");
  std::span<const float> rest = logits.f32();
  for (const std::string& text : arguments.texts) {
    answers.add(text, rest.first(classes));
    rest = rest.subspan(classes);
  }
  std::cout << (arguments.json ? answers.json() : answers.text());
  return answers.refused() == 0 ? ExitCode::kDone : ExitCode::kData;
}

// Recordings, each in a file. One that cannot be read is named, and the others are answered.
ExitCode predict_sounds(const PredictArguments& arguments, Predictor& predictor) {
  PODIUM_REQUIRE(arguments.out.empty(), ExitCode::kUsage,
                 "--out is for the rows of a file; of recordings, the answers go to standard "
                 "output");
  const Recipe& recipe = predictor.recipe();
  SoundReader reader(predictor.fields(), recipe.sounds.mel, recipe.text.too_long == kCutIfTooLong);
  std::vector<std::string> problems;  // of each file; empty: it was read
  for (const std::string& file : arguments.files) {
    std::string& problem = problems.emplace_back();
    try {
      reader.read(file);
    } catch (const UserError& error) {
      problem = error.what();
    }
  }
  const auto classes = static_cast<std::size_t>(predictor.target().below);
  Answers answers(predictor, arguments.top, "recording");
  const RowSource rows = reader.rows();
  const Tensor logits = rows.examples() > 0 ? predictor.predict(rows) : Tensor();
  std::span<const float> rest = rows.examples() > 0 ? logits.f32() : std::span<const float>();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (!problems[i].empty()) {
      answers.refuse(arguments.files[i], problems[i]);
      continue;
    }
    answers.add(arguments.files[i], rest.first(classes));
    rest = rest.subspan(classes);
  }
  std::cout << (arguments.json ? answers.json() : answers.text());
  return answers.refused() == 0 ? ExitCode::kDone : ExitCode::kData;
}

// The rows of a file, of which a run has a table or sentences.
ExitCode predict_file(const PredictArguments& arguments, Predictor& predictor) {
  const Recipe& recipe = predictor.recipe();
  PODIUM_REQUIRE(arguments.files.size() == 1, ExitCode::kUsage, arguments.run, " is a run on ",
                 own_file(recipe.data)->several, ": name one file to predict, not ",
                 arguments.files.size());
  if (!arguments.out.empty()) require_writable(arguments.out, "--out", arguments.force);
  const std::string& file = arguments.files[0];
  if (has_table(recipe)) {
    const Cells cells = read_cells(file);
    return predict_rows(predictor, cells, rows_to_predict(cells, predictor.fields()),
                        arguments.out);
  }
  const Cells cells = read_sentences(file, false);
  const auto tokenizer = tokenizer_of(recipe, predictor.fields());
  return predict_rows(predictor, cells,
                      sentences_to_predict(cells, recipe.text, predictor.fields(), *tokenizer),
                      arguments.out);
}

ExitCode predict(const PredictArguments& arguments) {
  PODIUM_REQUIRE(!arguments.files.empty() || !arguments.texts.empty(), ExitCode::kUsage,
                 "nothing to predict: name a file, or give a text with --text");
  Predictor predictor = Predictor::load(arguments.run, {}, arguments.placement, arguments.step);
  if (!arguments.texts.empty()) return predict_texts(arguments, predictor);
  if (has_table(predictor.recipe()) || has_sentences(predictor.recipe()))
    return predict_file(arguments, predictor);
  if (has_sounds(predictor.recipe())) return predict_sounds(arguments, predictor);
  PODIUM_REQUIRE(arguments.out.empty(), ExitCode::kUsage,
                 "--out is for the rows of a file; of pictures, the answers go to standard output");
  PODIUM_REQUIRE(find_field(predictor.fields(), "images") != nullptr, ExitCode::kUsage,
                 arguments.run, " is a run on ", to_text(predictor.fields()),
                 "; podium predict reads images, sounds, tables and sentences, podium translate "
                 "translates pairs, and podium generate continues a "
                 "text");
  const Shape& image = predictor.image_shape();
  const auto classes = static_cast<std::size_t>(predictor.classes());
  Answers answers(predictor, arguments.top, "image");
  double read_seconds = 0, predict_seconds = 0;
  ThreadPool threads(usable_cores());
  const std::span<const std::string> paths = arguments.files;
  for (std::size_t begin = 0; begin < paths.size(); begin += kFilesAtOnce) {
    const auto some = paths.subspan(begin, std::min(kFilesAtOnce, paths.size() - begin));
    const auto start = Clock::now();
    std::vector<PictureFile> files = read_files(some, predictor, threads);
    const ImageSet pictures = joined(files, image);
    read_seconds += seconds_since(start);
    const auto read = Clock::now();
    const Tensor logits = predictor.logits(pictures);
    predict_seconds += seconds_since(read);
    std::span<const float> rest = logits.f32();
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!files[i].problem.empty()) answers.refuse(some[i], files[i].problem);
      const std::int64_t count = files[i].set.count;
      for (std::int64_t k = 0; k < count; ++k, rest = rest.subspan(classes))
        answers.add(count == 1 ? some[i] : cat(some[i], "[", k, "]"), rest.first(classes));
    }
  }
  std::cout << (arguments.json ? answers.json() : answers.text());
  const std::int64_t answered = answers.answered();
  if (answered > 0)
    say(cat(count_text(answered, "picture"), ": read in ", fixed(read_seconds, 2),
            " s, predicted in ", fixed(predict_seconds, 2), " s (",
            with_commas(static_cast<std::int64_t>(static_cast<double>(answered) / predict_seconds)),
            " images/s)"));
  if (answers.refused() == 0) return ExitCode::kDone;
  if (answered > 0)
    complain(cat(with_commas(answers.refused()), " not classified, of ",
                 count_text(answers.refused() + answered, "picture")));
  return ExitCode::kData;
}

}  // namespace

void add_predict_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command =
      add_command(app, line, "predict",
                  "Predicts images, sounds, rows of a table or sentences with the model of a run",
                  {"podium predict runs/a *.png --top 3 --json",
                   "podium predict runs/sst2-seed0 --text \"a moving film\""},
                  [arguments] { return predict(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option(
      "FILE", arguments->files,
      "Photographs (JPEG, PNG) of any size, if the model was trained on pictures in "
      "files; a table (CSV, .npy) with the columns of the training, if it was trained "
      "on one; sentences, in lines or with the column of the training (CSV, .jsonl); "
      "recordings (WAV, FLAC); "
      "otherwise PNG or IDX files of its input size");
  command
      ->add_option("--text", arguments->texts,
                   "A sentence to predict, in place of a file; may be given several times")
      ->allow_extra_args(false);
  add_step_flag(*command, arguments->step);
  command
      ->add_option(
          "--top", arguments->top,
          "Number of classes to name per image, recording or --text, the most probable first")
      ->check(at_least(1), "POSITIVE")
      ->capture_default_str();
  command->add_option("--out", arguments->out,
                      "Of the rows of a file: the CSV file to write; default: standard output");
  add_force_flag(*command, arguments->force);
  add_placement_flags(*command, arguments->placement);
  command->get_option("--workers")
      ->description("Number of workers; default: one per core, or per device of the backend");
  command->add_flag("--json", arguments->json,
                    "Write a JSON array with probabilities and logits of all classes, or an error, "
                    "for each image, recording or --text");
}

}  // namespace podium
