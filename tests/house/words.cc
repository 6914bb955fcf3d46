#include "tests/house/words.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <span>
#include <sstream>
#include <string_view>

namespace podium::house {
namespace {

constexpr std::string_view kFolders[] = {"train/", "parallel/", "plan/", "report/", "cli/"};

// Files that are about pictures or about classification, by the beginnings of their paths.
constexpr std::string_view kAllowed[] = {
    "train/recipe/",          // the keys of pictures
    "train/loop/confusion.",  // which class was taken for which
    "train/loop/views.",      // means over views of an image
    "train/program/whitening.",
    "train/predict/predictor.",  // has functions for classifiers of images
    "train/run/rank_plan.",      // the shape of data that are not here
    "train/run/run_data.cc",     // opens data of each kind
    "train/run/run_pictures.",
    "plan/measured.",  // times the decoding of pictures
    "report/band.cc",  // forgets where a recipe's data lie
    "report/pages/example_pictures.",
    "report/trackers/tensorboard.",  // TensorBoard shows images
    "report/trackers/prometheus.",   // Prometheus has labels
    "cli/bench/",                    // bench data
    "cli/data/",                     // shows, checks and indexes datasets of pictures
    "cli/commands/eval_command.cc",  // --per-class
    "cli/commands/predict_command.cc",
    "cli/commands/report_command.cc",  // --pictures
};

// Names that such words are a part of, anywhere.
constexpr std::string_view kNames[] = {
    "ImageNet",
    "image-rendering:pixelated",
    "aria-label",
    "data:image/png",  // of HTML
    "kImagesField",
    "image_fields(",     // of older checkpoints
    "sizeof(ImageSet)",  // a plugin may make one
    "without_unread_pixels",
    "has_pictures(",
    "kCorrectCount",
    "score.correct",
    "confusion.correct",
    "\"correct\"",
};

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> begins) {
  return std::ranges::any_of(begins,
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

// Whether a word of code, in small letters, is one of pictures or of classification.
bool is_of_one_task(std::string_view word) {
  return word == "label" || word == "labels" || word == "correct" ||
         contains_any(word, {"image", "picture", "photo", "pixel"});
}

std::string without_names(std::string line) {
  for (const std::string_view name : kNames)
    for (std::size_t at = 0; (at = line.find(name, at)) != std::string::npos;)
      line.erase(at, name.size());
  return line;
}

// The first such word of a line; empty: none.
std::string word_in(const std::string& line, bool of_backend) {
  std::string word;
  for (const char c : line + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (of_backend ? contains_any(word, {"picture", "photo"}) : is_of_one_task(word)) return word;
    word.clear();
  }
  return "";
}

}  // namespace

std::vector<std::string> words_of_one_task(const std::vector<SourceFile>& files) {
  std::vector<std::string> found;
  for (const SourceFile& file : files) {
    const std::string_view path = file.path;
    const bool of_backend = path.starts_with("backend/");
    if (!of_backend && (!starts_with_any(path, kFolders) || starts_with_any(path, kAllowed)))
      continue;
    if (contains_any(path, {"_test.", "_fuzz.", "_bench.", "_test_util."})) continue;
    std::istringstream lines(file.text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      if (line.starts_with("#include")) continue;
      const std::string word = word_in(without_names(line), of_backend);
      if (!word.empty()) found.push_back(file.path + ":" + std::to_string(number) + ": " + word);
    }
  }
  return found;
}

std::vector<std::string> unsure_plurals(const std::vector<SourceFile>& files) {
  constexpr std::string_view kPlural = "(s)";
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  std::vector<std::string> found;
  for (const SourceFile& file : files) {
    std::istringstream lines(file.text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      for (std::size_t at = 0; (at = line.find(kPlural, at)) != std::string::npos; ++at) {
        const auto quotes = std::count(line.begin(), line.begin() + static_cast<long>(at), '"');
        if (quotes % 2 == 1 && at >= 2 && is_letter(line[at - 1]) && is_letter(line[at - 2]))
          found.push_back(file.path + ":" + std::to_string(number));
      }
    }
  }
  return found;
}

}  // namespace podium::house
