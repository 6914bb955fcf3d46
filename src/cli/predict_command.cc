// podium predict: what a run's model says of the rows of a table, or sees in pictures from files.
// Pictures are read and predicted many at a time; a file that cannot be read is named, and the
// others are answered.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/placement_flags.h"
#include "cli/predict_rows.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/pictures/image_file.h"
#include "data/pictures/pictures.h"
#include "train/run/predictor.h"

namespace podium {
namespace {

struct PredictArguments {
  std::string run, step, out;
  std::vector<std::string> images;
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

// Writes down what the network says of each picture.
class Answers {
 public:
  Answers(const Predictor& predictor, std::int64_t top)
      : predictor_(predictor),
        top_(static_cast<std::size_t>(std::min(top, predictor.classes()))),
        table_(top_ > 1 ? std::vector<std::string>{"IMAGE", "CLASS", "PROBABILITY", "NEXT"}
                        : std::vector<std::string>{"IMAGE", "CLASS", "PROBABILITY"}) {}

  void refuse(const std::string& image, const std::string& problem) {
    complain(problem);
    ++refused_;
    json_.push_back({{"image", image}, {"error", problem}});
  }

  void add(const std::string& image, std::span<const float> logits) {
    if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) {
      refuse(
          image,
          cat(image, ": the network's logits are not finite, so this picture is not classified"));
      return;
    }
    const std::vector<double> p = probabilities(logits);
    const std::vector<std::int64_t> order = ranking(logits);
    auto best = nlohmann::ordered_json::array();
    std::string next;
    for (std::size_t i = 0; i < top_; ++i) {
      const auto label = static_cast<std::size_t>(order[i]);
      const std::string name = predictor_.class_name(order[i]);
      best.push_back({{"class", order[i]},
                      {"name", name},
                      {"probability", p[label]},
                      {"logit", logits[label]}});
      if (i > 0) next += cat(i > 1 ? ", " : "", name, " (", percent(p[label]), ")");
    }
    const std::string first = predictor_.class_name(order[0]);
    const double share = p[static_cast<std::size_t>(order[0])];
    std::vector<std::string> row = {image, first, percent(share)};
    if (top_ > 1) row.push_back(next);
    table_.add(row);
    json_.push_back({{"image", image},
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
  const Predictor& predictor_;
  std::size_t top_;
  Table table_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::int64_t answered_ = 0, refused_ = 0;
};

ExitCode predict(const PredictArguments& arguments) {
  Predictor predictor = Predictor::load(arguments.run, {}, arguments.placement, arguments.step);
  if (has_table(predictor.recipe())) {
    PODIUM_REQUIRE(arguments.images.size() == 1, ExitCode::kUsage, arguments.run,
                   " is a run on a table: name one file of rows to predict, not ",
                   arguments.images.size());
    if (!arguments.out.empty()) require_writable(arguments.out, "--out", arguments.force);
    return predict_rows(predictor, arguments.images[0], arguments.out);
  }
  PODIUM_REQUIRE(
      arguments.out.empty(), ExitCode::kUsage,
      "--out is for the rows of a table; of pictures, the answers go to standard output");
  PODIUM_REQUIRE(find_field(predictor.fields(), "images") != nullptr, ExitCode::kUsage,
                 arguments.run, " is a run on ", to_text(predictor.fields()),
                 "; podium predict reads images and tables, and podium generate continues a text");
  const Shape& image = predictor.image_shape();
  const auto classes = static_cast<std::size_t>(predictor.classes());
  Answers answers(predictor, arguments.top);
  double read_seconds = 0, predict_seconds = 0;
  ThreadPool threads(usable_cores());
  const std::span<const std::string> paths = arguments.images;
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
  CLI::App* command = add_command(app, line, "predict",
                                  "Predicts images or the rows of a table with the model of a run",
                                  {"podium predict runs/a *.png --top 3 --json",
                                   "podium predict runs/rows-seed0 new.csv --out predicted.csv"},
                                  [arguments] { return predict(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command
      ->add_option("FILE", arguments->images,
                   "Photographs (JPEG, PNG) of any size, if the model was trained on pictures in "
                   "files; a table (CSV, .npy) with the columns of the training, if it was trained "
                   "on one; otherwise PNG or IDX files of its input size")
      ->required();
  add_step_flag(*command, arguments->step);
  command
      ->add_option("--top", arguments->top,
                   "Number of classes to name per image, the most probable first")
      ->check(at_least(1), "POSITIVE")
      ->capture_default_str();
  command->add_option("--out", arguments->out,
                      "Of a table: the CSV file to write; default: standard output");
  add_force_flag(*command, arguments->force);
  add_placement_flags(*command, arguments->placement);
  command->get_option("--workers")
      ->description("Number of workers; default: one per core, or per device of the backend");
  command->add_flag("--json", arguments->json,
                    "Write a JSON array with probabilities and logits of all classes, or an error, "
                    "for each image");
}

}  // namespace podium
