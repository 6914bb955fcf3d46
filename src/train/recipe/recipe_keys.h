// The keys of a recipe as data: reading, writing, errors and docs/recipes.md all come from this one
// table. To add a key: its member in Recipe, its line in recipe_key_list.cc
// and in the table of docs/recipes.md (`podium recipes --keys` prints it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/recipe/recipe.h"

namespace podium {

// Where a key's value lies in a Recipe.
template <typename T>
using FieldOf = std::function<T&(Recipe&)>;
using RecipeField =
    std::variant<FieldOf<std::string>, FieldOf<bool>, FieldOf<int>, FieldOf<std::int64_t>,
                 FieldOf<std::uint64_t>, FieldOf<float>, FieldOf<double>,
                 FieldOf<std::vector<double>>, FieldOf<std::vector<std::int64_t>>,
                 FieldOf<std::vector<std::string>>, FieldOf<Decay>>;

// Bounds of a number (or of each number of an array); an open one is itself not allowed.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_open = false, most_open = false;

  bool holds(double x) const {
    return (least_open ? x > least : x >= least) && (most_open ? x < most : x <= most);
  }
};
std::string to_string(const NumberRange& range);  // "at least 1", "above 0 and below 1"

struct RecipeKey {
  std::string table;  // empty: top level; of the second group of parameters: optimizer.group.2
  std::string name;
  RecipeField field;
  NumberRange range = {};
  std::vector<std::string> choices = {};          // of a word; empty: any
  std::vector<std::string> (*names)() = nullptr;  // of a word that names what is registered
  std::vector<std::int64_t> numbers = {};  // of an integer, where it is one of a few; empty: any
  // The values of the table's `name` with which the key has a meaning; empty: all.
  std::vector<std::string> fits = {};
  bool required = false;
  std::string unit = "";
  // Whether the parameters or the accuracy depend on it; not: what a run is called, and what
  // decides when something is written down or how much memory it takes.
  bool decides_result = true;
  // Whether it decides bits alone: runs that differ in it are one training, and of two kinds.
  bool decides_kind = false;
  std::string fallback = "";  // what it has by default, where that is not always the same
  std::string meaning;
  std::size_t group = 0;  // the number of its group of parameters, from 1; 0: of none

  std::string path() const { return table.empty() ? name : table + "." + name; }
  // The words that are allowed now; empty: any.
  std::vector<std::string> words() const { return names != nullptr ? names() : choices; }
  bool fits_name(const std::string& table_name) const;
};

inline constexpr const char* kGroupTable = "optimizer.group";  // an array of tables

// In the order in which a resolved recipe has them; with those of so many groups of parameters.
const std::vector<RecipeKey>& recipe_keys(std::size_t groups = 0);
inline const std::vector<RecipeKey>& recipe_keys(const Recipe& recipe) {
  return recipe_keys(recipe.optimizer_groups.size());
}
// By its dotted path; null where there is none. A group's number may be any.
const RecipeKey* find_recipe_key(const std::string& path);
// The number in optimizer.group.NUMBER and in optimizer.group.NUMBER.KEY, from 1 to
// kMostOptimizerGroups; 0 where a path is neither.
std::size_t group_of_path(const std::string& path);
// The path of the key that names what a table is about: "schedule.name", but "data" of [data].
inline std::string name_key_of(const std::string& table) {
  return table == "data" ? table : table == "network" ? "model" : table + ".name";
}
// The value of a table's `name`: of the optimizer, the schedule, the normalisation.
const std::string& name_of_table(const Recipe& recipe, const std::string& table);

// Gives a key its default.
void reset_key(const RecipeKey& key, Recipe& recipe);

// The type of a key, for people: "an integer".
std::string type_text(const RecipeKey& key);
// Whether the recipe's text has the key: of a model or of data of another kind it has none.
bool has_meaning(const RecipeKey& key, const Recipe& recipe);
// A key's value in TOML's spelling; "none" where the recipe has fewer groups of parameters.
std::string value_text(const RecipeKey& key, const Recipe& recipe);
// A number that reads back exactly, as a person would write it: 0.01, 1e-8, 2000.
std::string number_text(double value);
std::string number_text(float value);
// A TOML string, quoted.
std::string quoted_text(const std::string& text);

// The tables of docs/recipes.md.
std::string recipe_keys_markdown();

// Collects what is wrong with a recipe, a line each.
class RecipeProblems {
 public:
  // Where a key's value was given; `line` orders the errors.
  struct Place {
    std::string text;
    std::int64_t line = 0;
  };

  explicit RecipeProblems(std::string source) : source_(std::move(source)) {}
  void set_place(const std::string& path, Place place) { places_[path] = std::move(place); }
  bool was_given(const std::string& path) const { return places_.contains(path); }
  void forget(const std::string& path) { places_.erase(path); }
  // 0 where the key has its default.
  std::int64_t line_of(const std::string& path) const {
    const auto place = places_.find(path);
    return place == places_.end() ? 0 : place->second.line;
  }

  void add_at(const Place& place, const std::string& text);
  // About a key: named by its place, or by the source where it has its default. Such a key takes no
  // part in further checks.
  void add(const std::string& path, const std::string& text);
  void mark_bad(const std::string& path) { bad_.insert(path); }
  bool is_bad(const std::string& path) const { return bad_.contains(path); }

  // Throws one UserError with all of them by rising line, or the first 50, if there are any.
  void raise();

 private:
  std::string source_;
  std::map<std::string, Place> places_;
  std::set<std::string> bad_;
  std::vector<std::pair<std::int64_t, std::string>> problems_;
};

// What no single key can break: required keys, keys that must agree, keys that do not fit.
void check_recipe(const Recipe& recipe, RecipeProblems& problems);
// What no number of examples may break, of a recipe that was read before they were counted. Throws
// UserError(kUsage) with all that is wrong.
void check_counts(const Recipe& recipe);

// The key that people mean by a short or usual name: "optimizer.learning_rate" for "lr". Empty:
// none.
std::string key_of_usual_name(std::string_view name);

}  // namespace podium
