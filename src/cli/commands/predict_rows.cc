#include "cli/commands/predict_rows.h"

#include <iostream>
#include <vector>

#include "base/words.h"
#include "cli/talk.h"
#include "files/file_io.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

// As CSV writes it: in quotes where it would be taken apart.
std::string cell_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// A name for a column that the table does not have.
std::string new_name(const Cells& cells, std::string name) {
  while (cells.column_of(name) >= 0) name += '_';
  return name;
}

}  // namespace

ExitCode predict_rows(Predictor& predictor, const Cells& cells, const RowSource& rows,
                      const std::string& out) {
  rows.require_usable("the file to predict");
  const Tensor outputs = predictor.predict(rows);
  const Field& target = predictor.target();
  const bool of_classes = target.dtype == DType::kI32;
  std::string text;
  for (const std::string& name : cells.names) text += cell_text(name) + ",";
  text += new_name(cells, "predicted");
  text += of_classes ? "," + new_name(cells, "probability") + "\n" : "\n";
  const std::int64_t width = outputs.elements() / rows.examples();
  for (std::int64_t r = 0; r < rows.examples(); ++r) {
    for (std::int64_t c = 0; c < cells.columns(); ++c) text += cell_text(cells.at(r, c)) + ",";
    const auto own =
        outputs.f32().subspan(static_cast<std::size_t>(r * width), static_cast<std::size_t>(width));
    if (of_classes) {
      const std::int64_t best = ranking(own)[0];
      const double share = probabilities(own)[static_cast<std::size_t>(best)];
      text +=
          cat(cell_text(word_of(target, best)), ",", number_text(static_cast<float>(share)), "\n");
    } else {
      const double value = static_cast<double>(own[0]);
      text +=
          number_text(static_cast<float>(
              target.deviation.empty() ? value : target.mean[0] + target.deviation[0] * value)) +
          "\n";
    }
  }
  if (out.empty()) {
    std::cout << text;
  } else {
    replace_text(out, text);
    say(cat(out, ": ", count_text(rows.examples(), unit_of(rows.fields())),
            " with the predicted \"", target.name, "\""));
  }
  return ExitCode::kDone;
}

}  // namespace podium
