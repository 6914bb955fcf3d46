// Reading and writing a recipe, by the table of recipe_keys.h.
#include "train/recipe.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/words.h"
#include "data/dataset.h"
#include "train/file_io.h"
#include "train/recipe_keys.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostRecipeBytes = 1 << 20;

// What a node is, for people.
std::string node_text(const toml::node& node) {
  const auto shown = [&](const char* kind) {
    std::ostringstream text;
    node.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>)
        text << toml::toml_formatter{value, toml::format_flags::none};
    });
    std::string line = text.str();
    std::replace(line.begin(), line.end(), '\n', ' ');
    if (line.size() > 40) line = line.substr(0, 37) + "...";
    return cat(kind, " ", line);
  };
  switch (node.type()) {
    case toml::node_type::string: return shown("the string");
    case toml::node_type::integer: return shown("the integer");
    case toml::node_type::floating_point: return shown("the number");
    case toml::node_type::boolean: return shown("the boolean");
    case toml::node_type::array: return "an array";
    case toml::node_type::table: return "a table";
    default: return "a date or time";
  }
}

// A place in a text, and what is wrong there.
struct TextFault {
  std::size_t at;
  const char* rule;
};

// What toml++ 3.3 does not refuse but is undefined on: characters beyond ASCII where white space
// may stand (hundreds of them are "unreachable" to it), a table's header that begins with no key,
// and a key of so many names that the tables it stands for, one in the other, overflow the stack.
// What is no TOML otherwise is left to it.
std::optional<TextFault> fault_before_parsing(std::string_view text) {
  constexpr const char* kStray =
      "not TOML: a character beyond ASCII may stand in a comment or in a string of one line, and "
      "not here";
  constexpr const char* kLongKey =
      "a key of more than 16 dots; a recipe's have two at most, as in optimizer.filters.name";
  const auto beyond_ascii = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]) >= 0x80;
  };
  const auto skip_blanks = [&](std::size_t i) {
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
    return i;
  };
  constexpr int kMostDots = 16;
  int dots = 0;  // of the key, where one stands here; no value has as many
  bool line_begins = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (beyond_ascii(i)) return TextFault{i, kStray};
    if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) dots = 0;
    if (c == '.' && ++dots > kMostDots) return TextFault{i, kLongKey};
    if (c == '[' && line_begins) {
      std::size_t key = skip_blanks(i + 1);
      if (key < text.size() && text[key] == '[') key = skip_blanks(key + 1);
      if (key < text.size() && !beyond_ascii(key) && std::isalnum(text[key]) == 0 &&
          std::string_view("_-\"'").find(text[key]) == std::string_view::npos)
        return TextFault{key, "not TOML: a table's name stands here, as in [optimizer]"};
    }
    line_begins = c == '\n' || (line_begins && (c == ' ' || c == '\t'));
    if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      const std::string_view triple = c == '"' ? "\"\"\"" : "'''";
      const bool one_line = text.substr(i, 3) != triple;
      const std::string_view end = one_line ? triple.substr(0, 1) : triple;
      for (i += end.size(); i < text.size() && text.substr(i, end.size()) != end; ++i) {
        if (one_line && text[i] == '\n') break;
        if (!one_line && beyond_ascii(i)) return TextFault{i, kStray};
        if (c == '"' && text[i] == '\\' && i + 1 < text.size() && !beyond_ascii(i + 1)) ++i;
      }
      i += end.size() - 1;
      // One or two more quotes belong to the string of several lines that they end.
      for (int more = 0; !one_line && more < 2 && i + 1 < text.size() && text[i + 1] == c; ++more)
        ++i;
    }
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)), problems_(source_) {}

  void read_text(const std::string& text) {
    if (const auto fault = fault_before_parsing(text)) {
      const std::string_view before = std::string_view(text).substr(0, fault->at);
      const auto line = 1 + std::ranges::count(before, '\n');
      const std::size_t column = fault->at - (before.find_last_of('\n') + 1) + 1;
      problems_.add_at({cat(source_, ":", line, ":", column), static_cast<std::int64_t>(line)},
                       fault->rule);
      readable_ = false;
      return;
    }
    try {
      const toml::table root = toml::parse(std::string_view(text), std::string_view(source_));
      for (const auto& [key, node] : root) read_entry(std::string(key.str()), key, node);
    } catch (const toml::parse_error& error) {
      problems_.add_at(
          {cat(source_, ":", error.source().begin.line, ":", error.source().begin.column),
           static_cast<std::int64_t>(error.source().begin.line)},
          cat("not TOML: ", error.description()));
      readable_ = false;
    }
  }

  void override_with(const std::string& text) {
    // After the lines of any file, in the order given.
    const RecipeProblems::Place place{cat("`", text, "` on the command line"),
                                      kAfterFile + overrides_++};
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems_.add_at(place,
                       "an override is written key=value, as in optimizer.learning_rate=0.02");
      return;
    }
    const std::string path = text.substr(0, equals), value = text.substr(equals + 1);
    const RecipeKey* key = find_recipe_key(path);
    if (key == nullptr) return unknown(path, place);
    if (const auto node = parse_value(value, is_word(*key))) {
      assign(*key, **node, place);
      overridden_.insert(path);
    } else {
      problems_.add_at(place, cat("`", path, "` must be ", type_text(*key), ", got `", value, "`"));
      problems_.mark_bad(path);
    }
  }

  Recipe finish(const std::string& name) {
    if (recipe_.name.empty() && !problems_.is_bad("name")) recipe_.name = name;
    replace_by_overrides();
    // A text that is no TOML is one error; what it lacks is not worth a line.
    if (readable_) check_recipe(recipe_, problems_);
    problems_.raise();
    return std::move(recipe_);
  }

 private:
  static constexpr std::int64_t kAfterFile = std::int64_t{1} << 40;

  RecipeProblems::Place place_of(const toml::source_region& region) const {
    return {cat(source_, ":", region.begin.line), static_cast<std::int64_t>(region.begin.line)};
  }

  static bool is_word(const RecipeKey& key) { return type_text(key) == "a string"; }

  void read_entry(const std::string& path, const toml::key& written, const toml::node& node) {
    const auto& keys = recipe_keys();
    const bool is_table = std::any_of(keys.begin(), keys.end(), [&](const RecipeKey& key) {
      return !key.table.empty() && key.table == path;
    });
    if (is_table) {
      if (const toml::table* table = node.as_table()) {
        for (const auto& [key, value] : *table) read_entry(cat(path, ".", key.str()), key, value);
      } else {
        problems_.add_at(place_of(written.source()),
                         cat("`", path, "` must be a table, [", path, "], got ", node_text(node)));
      }
      return;
    }
    const RecipeKey* key = find_recipe_key(path);
    if (key == nullptr) return unknown(path, place_of(written.source()));
    assign(*key, node, place_of(written.source()));
  }

  void unknown(const std::string& path, const RecipeProblems::Place& place) {
    // A file that is no recipe may have many or long ones, and is not worth seconds.
    if (path.size() > 64 || ++unknown_ > 100) {
      problems_.add_at(
          place, cat("unknown key `", path, "`; `podium recipes --keys` lists those there are"));
      return;
    }
    const auto& keys = recipe_keys();
    const auto inside = std::ranges::find(keys, path, &RecipeKey::table);
    if (!path.empty() && inside != keys.end()) {
      problems_.add_at(
          place, cat("`", path, "` is a table; give its keys, such as `", inside->path(), "`"));
      return;
    }
    // A key that stands in the wrong table is as near as its own name, and one edit.
    const auto last = [](const std::string& p) { return p.substr(p.rfind('.') + 1); };
    std::string nearest;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    const auto consider = [&](const std::string& known) {
      const std::size_t distance =
          std::min(edit_distance(path, known), edit_distance(last(path), last(known)) + 1);
      if (distance < least) least = distance, nearest = known;
    };
    for (const RecipeKey& key : recipe_keys()) {
      consider(key.path());
      if (!key.table.empty()) consider(key.table);
    }
    problems_.add_at(place,
                     cat("unknown key `", path, "`; the nearest known one is `", nearest, "`"));
    problems_.mark_bad(nearest);
  }

  // A value in TOML's spelling, or a bare word where one is wanted.
  static std::optional<std::unique_ptr<toml::node>> parse_value(const std::string& text,
                                                                bool word) {
    const auto parse = [](const std::string& value) -> std::optional<std::unique_ptr<toml::node>> {
      if (fault_before_parsing("value = " + value)) return std::nullopt;
      try {
        toml::table table = toml::parse("value = " + value);
        if (table.size() != 1) return std::nullopt;
        std::unique_ptr<toml::node> node;
        table.begin()->second.visit([&](auto& found) {
          node = std::make_unique<std::remove_cvref_t<decltype(found)>>(std::move(found));
        });
        return node;
      } catch (const toml::parse_error&) {
        return std::nullopt;
      }
    };
    auto node = parse(text);
    if (word && (!node || !(*node)->is_string())) node = parse(quoted_text(text));
    return node;
  }

  void refuse(const RecipeKey& key, const RecipeProblems::Place& place, const std::string& text) {
    problems_.add_at(place, text);
    problems_.mark_bad(key.path());
  }

  void assign(const RecipeKey& key, const toml::node& node, const RecipeProblems::Place& place) {
    problems_.set_place(key.path(), place);
    std::visit([&](const auto& access) { assign_to(access(recipe_), key, node, place); },
               key.field);
  }

  bool in_range(const RecipeKey& key, double value, const RecipeProblems::Place& place) {
    if (std::isfinite(value) && key.range.holds(value)) return true;
    refuse(key, place,
           cat("`", key.path(), "` is ", number_text(value), "; it must be ",
               std::isfinite(value) ? to_string(key.range) : "a finite number"));
    return false;
  }

  bool one_of_few(const RecipeKey& key, std::int64_t value, const RecipeProblems::Place& place) {
    if (key.numbers.empty() || std::ranges::count(key.numbers, value) != 0) return true;
    std::vector<std::string> known;
    for (const std::int64_t number : key.numbers) known.push_back(cat(number));
    refuse(key, place, cat("`", key.path(), "` is ", value, "; known: ", join_words(known)));
    return false;
  }

  void wrong_type(const RecipeKey& key, const toml::node& node,
                  const RecipeProblems::Place& place) {
    refuse(key, place,
           cat("`", key.path(), "` must be ", type_text(key), ", got ", node_text(node)));
  }

  std::optional<std::string> word_of(const RecipeKey& key, const toml::node& node,
                                     const RecipeProblems::Place& place) {
    const auto* string = node.as_string();
    if (string == nullptr) {
      wrong_type(key, node, place);
      return std::nullopt;
    }
    const std::string& word = string->get();
    for (const auto& [refused, reason] : key.refused) {
      if (word == refused) {
        refuse(key, place,
               cat("`", key.path(), "` = \"", word, "\": ", reason, "; use \"", key.choices.front(),
                   "\""));
        return std::nullopt;
      }
    }
    if (!key.choices.empty() &&
        std::find(key.choices.begin(), key.choices.end(), word) == key.choices.end()) {
      refuse(key, place,
             cat("`", key.path(), "` = ", quoted_text(word),
                 " is unknown; known: ", join_words(key.choices), "; the nearest is \"",
                 nearest_word(word, key.choices), "\""));
      return std::nullopt;
    }
    return word;
  }

  void assign_to(std::string& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    if (auto word = word_of(key, node, place)) target = std::move(*word);
  }
  void assign_to(Decay& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    if (const auto word = word_of(key, node, place))
      target = *word == "once" ? Decay::kOnce : Decay::kPerReplica;
  }
  void assign_to(bool& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    if (const auto* value = node.as_boolean()) {
      target = value->get();
    } else {
      wrong_type(key, node, place);
    }
  }
  template <typename T>
  requires std::is_integral_v<T>
  void assign_to(T& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    if (const auto* value = node.as_integer()) {
      if (in_range(key, static_cast<double>(value->get()), place) &&
          one_of_few(key, value->get(), place))
        target = static_cast<T>(value->get());
    } else {
      wrong_type(key, node, place);
    }
  }
  template <typename T>
  requires std::is_floating_point_v<T>
  void assign_to(T& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    if (!node.is_number()) return wrong_type(key, node, place);
    // Rounded first, so that what is checked is what is used; -0 becomes 0.
    const T value = static_cast<T>(*node.value<double>()) + T{0};
    if (in_range(key, static_cast<double>(value), place)) target = value;
  }
  void assign_to(std::vector<double>& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return wrong_type(key, node, place);
    std::vector<double> values;
    for (const toml::node& element : *array) {
      if (!element.is_number()) {
        return refuse(key, place,
                      cat("`", key.path(), "` must be an array of numbers; element ",
                          values.size() + 1, " is ", node_text(element)));
      }
      values.push_back(*element.value<double>() + 0.0);
      if (!in_range(key, values.back(), place)) return;
    }
    target = std::move(values);
  }

  // A word on the command line replaces what it contradicts in the file.
  void replace_by_overrides() {
    const auto replaces = [&](const std::string& given, std::int64_t value,
                              const std::string& other, std::int64_t& other_value) {
      if (overridden_.contains(given) && !overridden_.contains(other) && value != 0) {
        other_value = 0;
        problems_.forget(other);
      }
    };
    replaces("epochs", recipe_.epochs, "steps", recipe_.steps);
    replaces("steps", recipe_.steps, "epochs", recipe_.epochs);

    for (const RecipeKey& key : recipe_keys()) {
      if (key.fits.empty() || !overridden_.contains(key.table + ".name")) continue;
      if (overridden_.contains(key.path()) || key.fits_name(name_of_table(recipe_, key.table)))
        continue;
      reset_key(key, recipe_);
      problems_.forget(key.path());
    }
  }

  std::string source_;
  RecipeProblems problems_;
  Recipe recipe_;
  std::set<std::string> overridden_;
  std::int64_t overrides_ = 0, unknown_ = 0;
  bool readable_ = true;
};

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides) {
  Reader reader(source);
  reader.read_text(text);
  for (const std::string& override_text : overrides) reader.override_with(override_text);
  return reader.finish(std::filesystem::path(source).stem().string());
}

Recipe read_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  std::error_code ignored;
  PODIUM_REQUIRE(!std::filesystem::is_directory(file, ignored), ExitCode::kUsage, file.string(),
                 ": a folder, where a recipe's file is wanted");
  const auto text = read_text(file, kMostRecipeBytes);
  PODIUM_REQUIRE(text.has_value(), ExitCode::kUsage, file.string(),
                 ": no such recipe; `podium recipes` lists those there are");
  return parse_recipe(*text, file.string(), overrides);
}

std::int64_t training_examples(const Recipe& recipe) {
  const std::int64_t all =
      recipe.train_examples != 0 ? recipe.train_examples : find_dataset(recipe.data).train_examples;
  return all - recipe.validation;
}
std::int64_t steps_per_epoch(const Recipe& recipe) {
  return training_examples(recipe) / recipe.batch;
}
std::int64_t total_steps(const Recipe& recipe) {
  return recipe.steps != 0 ? recipe.steps : recipe.epochs * steps_per_epoch(recipe);
}

std::string to_toml(const Recipe& recipe) {
  std::string text, table;
  for (const RecipeKey& key : recipe_keys()) {
    // Of epochs and steps the one that is given.
    if (key.path() == "epochs" && recipe.epochs == 0 && recipe.steps != 0) continue;
    if (key.path() == "steps" && recipe.steps == 0) continue;
    if (key.table != table) {
      table = key.table;
      text += cat("\n[", table, "]\n");
    }
    // Of a group of parameters that has no optimizer of its own there is no more to say.
    if (key.table.starts_with("optimizer.") && key.name != "name" &&
        name_of_table(recipe, key.table) == kSameOptimizer)
      continue;
    text += cat(key.name, " = ", value_text(key, recipe), "\n");
  }
  return text;
}

}  // namespace podium
