// Reading and writing a recipe, by the table of recipe_keys.h.
#include "train/recipe/recipe.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <system_error>
#include <type_traits>

#include "base/log.h"
#include "base/words.h"
#include "data/datasets/dataset.h"
#include "files/file_io.h"
#include "files/toml_fault.h"
#include "train/recipe/older_recipe.h"
#include "train/recipe/recipe_keys.h"

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

class Reader {
 public:
  Reader(std::string source, ModelNames models)
      : source_(std::move(source)), models_(models), problems_(source_) {}

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
      root_ = toml::parse(std::string_view(text), std::string_view(source_));
      for (const auto& [key, node] : root_) read_entry(std::string(key.str()), key, node);
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
    const RecipeProblems::Place place{cat("`", text, "`"), kAfterFile + overrides_++};
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems_.add_at(place,
                       "an override is written key=value, as in optimizer.learning_rate=0.02");
      return;
    }
    const std::string path = text.substr(0, equals), value = text.substr(equals + 1);
    const RecipeKey* key = find_recipe_key(path == "data.name" ? "data" : path);
    if (key == nullptr) return unknown(path, place);
    if (overrides_ == 1) file_epochs_ = recipe_.epochs, file_steps_ = recipe_.steps;
    if (auto node = parse_value(value, is_word(*key))) {
      overridden_.insert(path);
      if (key->group == 0) return assign(*key, **node, place);
      group_overrides_.push_back({key, std::move(*node), place});
    } else {
      problems_.add_at(place, cat("`", path, "` must be ", type_text(*key), ", got `", value, "`"));
      problems_.mark_bad(path);
    }
  }

  Recipe finish(const std::string& name) {
    if (recipe_.name.empty() && !problems_.is_bad("name")) recipe_.name = name;
    read_groups();
    replace_by_overrides();
    // A text that is no TOML is one error; what it lacks is not worth a line.
    // "photos/" is the folder "photos".
    std::string& path = recipe_.pictures.path;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
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
    if (path == kGroupTable) return find_groups(written, node);
    if (is_older_group(path) && node.is_table()) {
      older_groups_.emplace_back(path, &node);
      return;
    }
    if (path == "data.name") return read_entry("data", written, node);
    const auto& keys = recipe_keys();
    const bool is_table = (path != "data" || node.is_table()) &&
                          std::any_of(keys.begin(), keys.end(), [&](const RecipeKey& key) {
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

  // Groups of parameters begin as copies of [optimizer], so they are read after it and after what
  // the command line says of it.
  void find_groups(const toml::key& written, const toml::node& node) {
    const toml::array* array = node.as_array();
    if (array == nullptr || !std::ranges::all_of(*array, &toml::node::is_table)) {
      problems_.add_at(place_of(written.source()),
                       cat("`", kGroupTable, "` must be an array of tables, [[", kGroupTable,
                           "]], got ", node_text(node)));
      return;
    }
    if (array->size() > kMostOptimizerGroups) {
      problems_.add_at(place_of(written.source()), cat("`", kGroupTable, "` has ", array->size(),
                                                       " tables; at most ", kMostOptimizerGroups));
      return;
    }
    for (const toml::node& table : *array) groups_.push_back(table.as_table());
  }

  struct GroupValue {
    const RecipeKey* key;
    std::unique_ptr<toml::node> node;
    RecipeProblems::Place place;
  };

  void read_groups() {
    // No recipe has older groups and others.
    std::ranges::sort(older_groups_, {}, [](const auto& older) { return older_rank(older.first); });
    for (const auto& [path, node] : older_groups_) read_older_group(path, *node->as_table());
    for (const toml::table* table : groups_) read_group(table);
    // The command line may add some, the next number each.
    for (const GroupValue& value : group_overrides_) {
      const std::size_t next = recipe_.optimizer_groups.size() + 1;
      if (value.key->group == next) {
        read_group(nullptr);
      } else if (value.key->group > next) {
        problems_.add_at(value.place, cat("there is no group ", value.key->group,
                                          " of parameters; the next one is ", next));
      }
    }
  }

  // Of a table, and of the command line.
  void read_group(const toml::table* table) {
    const std::size_t group = recipe_.optimizer_groups.size() + 1;
    OptimizerGroup& its = recipe_.optimizer_groups.emplace_back();
    its.optimizer.name = recipe_.optimizer.name;
    struct Given {
      const RecipeKey* key;
      const toml::node* node;
      RecipeProblems::Place place;
    };
    std::vector<Given> of_table, given;
    if (table != nullptr) {
      for (const auto& [name, node] : *table) {
        const std::string path = cat(kGroupTable, ".", group, ".", name.str());
        if (const RecipeKey* key = find_recipe_key(path))
          of_table.push_back({key, &node, place_of(name.source())});
        else
          unknown(path, place_of(name.source()));
      }
    }
    for (const GroupValue& value : group_overrides_)
      if (value.key->group == group) given.push_back({value.key, value.node.get(), value.place});

    // `name` and `frozen` decide what the other keys are where they are not given.
    const auto is_first = [](const Given& one) {
      return one.key->name == "name" || one.key->name == "frozen";
    };
    for (const auto* list : {&of_table, &given})
      for (const Given& one : *list)
        if (is_first(one)) assign(*one.key, *one.node, one.place);
    inherit(its);
    const bool frozen_now =
        its.frozen && overridden_.contains(cat(kGroupTable, ".", group, ".frozen"));
    for (const Given& one : of_table)
      if (!is_first(one) && (!frozen_now || one.key->name == "parameters"))
        assign(*one.key, *one.node, one.place);
    for (const Given& one : given)
      if (!is_first(one)) assign(*one.key, *one.node, one.place);
    if (frozen_now && !overridden_.contains(cat(kGroupTable, ".", group, ".name")))
      problems_.forget(cat(kGroupTable, ".", group, ".name"));
  }

  // Of another optimizer, [optimizer]'s numbers would mean something else.
  void inherit(OptimizerGroup& group) const {
    const std::string name = group.optimizer.name;
    if (group.frozen) {
      group.optimizer = {};
    } else if (name == recipe_.optimizer.name) {
      group.optimizer = recipe_.optimizer;
    } else {
      group.optimizer = {
          .name = name, .decay_all = recipe_.optimizer.decay_all, .decay = recipe_.optimizer.decay};
    }
  }

  // [optimizer.filters] and its like, of recipes before there were patterns: their own keys, the
  // rest at its default, on every parameter of the group; named "same": [optimizer]'s.
  void read_older_group(const std::string& path, const toml::table& table) {
    const auto* name = table.get_as<std::string>("name");
    const bool same = name == nullptr ? !table.contains("name") : name->get() == "same";
    if (same) {
      for (const auto& [key, node] : table)
        if (key.str() != "name")
          problems_.add_at(place_of(key.source()),
                           cat("`", path, ".", key.str(), "` has no effect with `", path,
                               ".name` = \"same\"; remove it"));
      return;
    }
    const std::vector<std::string> patterns = older_group(recipe_.model, path);
    if (patterns.empty()) {
      if (problems_.is_bad("model")) return;
      problems_.add_at(
          place_of(table.source()),
          cat("[", path, "] is not a table of a recipe; choose parameters by their names, [[",
              kGroupTable, "]] parameters = [\"conv*.weight\"]"));
      return;
    }
    const std::size_t group = recipe_.optimizer_groups.size() + 1;
    recipe_.optimizer_groups.push_back(
        {.parameters = patterns,
         .optimizer = {.decay_all = true, .decay = recipe_.optimizer.decay}});
    problems_.set_place(cat(kGroupTable, ".", group, ".parameters"), place_of(table.source()));
    for (const auto& [key, node] : table) {
      const RecipeKey* known = find_recipe_key(cat(kGroupTable, ".", group, ".", key.str()));
      if (known == nullptr)
        unknown(cat(path, ".", key.str()), place_of(key.source()));
      else
        assign(*known, node, place_of(key.source()));
    }
  }

  void unknown(const std::string& path, const RecipeProblems::Place& place) {
    // A file that is no recipe may have many or long ones, and is not worth seconds.
    if (path.size() > 64 || ++unknown_ > 100) {
      problems_.add_at(place,
                       cat("unknown key `", path, "`; `podium recipes --keys` lists all keys"));
      return;
    }
    if (is_older_group(path.substr(0, path.rfind('.')))) {
      problems_.add_at(place, cat("unknown key `", path,
                                  "`; a group of parameters is named by its "
                                  "number, as in `",
                                  kGroupTable, ".1.name`"));
      return;
    }
    const bool of_a_group = path.starts_with(cat(kGroupTable, "."));
    const std::size_t group = std::max<std::size_t>(group_of_path(path), of_a_group ? 1 : 0);
    const auto& keys = recipe_keys(group);
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
    for (const RecipeKey& key : keys) {
      if (key.group != group) continue;
      consider(key.path());
      if (!key.table.empty()) consider(key.table);
    }
    if (group == 0) consider(kGroupTable);
    if (const std::string usual = key_of_usual_name(path); !usual.empty()) nearest = usual;
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
    const bool any = models_ != ModelNames::kRegistered && key.path() == "model";
    const std::vector<std::string> known = any ? std::vector<std::string>() : key.words();
    const std::string name = key.path() == "data" ? split_data_name(word).name : word;
    if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
      if (models_ == ModelNames::kRecorded && key.path() == "data") {
        problems_.mark_bad("data");  // checked when the run was made; nothing here knows its size
        return word;
      }
      refuse(key, place,
             cat("`", key.path(), "` = ", quoted_text(word), " is unknown; known: ",
                 join_words(known), "; the nearest is \"", nearest_word(word, known), "\""));
      return std::nullopt;
    }
    return word;
  }

  void assign_to(std::string& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    auto word = word_of(key, node, place);
    if (!word) return;
    target = std::move(*word);
    if (key.path() != "data") return;
    const DataName parts = split_data_name(target);
    target = parts.name;
    if (parts.path.empty()) return;
    recipe_.pictures.path = parts.path;
    problems_.set_place("data.path", place);
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
  void assign_to(std::vector<std::string>& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return wrong_type(key, node, place);
    std::vector<std::string> values;
    for (const toml::node& element : *array) {
      const auto* value = element.as_string();
      if (value == nullptr) {
        return refuse(key, place,
                      cat("`", key.path(), "` must be an array of strings; element ",
                          values.size() + 1, " is ", node_text(element)));
      }
      values.push_back(value->get());
    }
    target = std::move(values);
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void assign_to(std::vector<T>& target, const RecipeKey& key, const toml::node& node,
                 const RecipeProblems::Place& place) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return wrong_type(key, node, place);
    std::vector<T> values;
    for (const toml::node& element : *array) {
      if (std::is_integral_v<T> ? !element.is_integer() : !element.is_number()) {
        return refuse(key, place,
                      cat("`", key.path(), "` must be ", type_text(key), "; element ",
                          values.size() + 1, " is ", node_text(element)));
      }
      values.push_back(*element.value<T>() + T{0});
      if (!in_range(key, static_cast<double>(values.back()), place)) return;
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
    shorten_warm_up();

    for (const RecipeKey& key : recipe_keys(recipe_)) {
      if (key.fits.empty() || !overridden_.contains(name_key_of(key.table))) continue;
      if (overridden_.contains(key.path()) || key.fits_name(name_of_table(recipe_, key.table)))
        continue;
      reset_key(key, recipe_);
      problems_.forget(key.path());
    }
  }

  // A run that is made shorter than the file's warm-up is warmed up for the same share of it.
  void shorten_warm_up() {
    double& warmup = recipe_.schedule.warmup;
    const bool by_epoch = recipe_.schedule.unit == "epoch";
    const std::int64_t length = by_epoch ? recipe_.epochs : recipe_.steps,
                       of_file = by_epoch ? file_epochs_ : file_steps_;
    const char* const key = by_epoch ? "epochs" : "steps";
    if (!overridden_.contains(key) || overridden_.contains("schedule.warmup") ||
        overridden_.contains("schedule.unit") || length == 0 || of_file <= length ||
        warmup <= static_cast<double>(length) || warmup > static_cast<double>(of_file))
      return;
    const double shortened = warmup * static_cast<double>(length) / static_cast<double>(of_file);
    log(LogLevel::kInfo,
        cat(source_, ": its warm-up of ", number_text(warmup), " ", key, " is longer than ", key,
            "=", length,
            ", so it keeps its share of the run: schedule.warmup=", number_text(shortened)));
    warmup = shortened;
  }

  std::string source_;
  const ModelNames models_;
  RecipeProblems problems_;
  Recipe recipe_;
  std::set<std::string> overridden_;
  toml::table root_;  // the groups are read when the rest has been
  std::vector<const toml::table*> groups_;
  std::vector<std::pair<std::string, const toml::node*>> older_groups_;
  std::vector<GroupValue> group_overrides_;
  std::int64_t overrides_ = 0, unknown_ = 0;
  std::int64_t file_epochs_ = 0, file_steps_ = 0;  // before overrides
  bool readable_ = true;
};

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides, ModelNames models) {
  Reader reader(source, models);
  reader.read_text(text);
  for (const std::string& override_text : overrides) reader.override_with(override_text);
  return reader.finish(std::filesystem::path(source).stem().string());
}

Recipe read_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   ModelNames models) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    const auto inside = file / "recipe.toml";
    throw UserError(
        cat(file.string(), ": is a folder, not the file of a recipe",
            std::filesystem::exists(inside, ignored) ? cat("; give its recipe, ", inside.string())
                                                     : std::string()),
        ExitCode::kUsage);
  }
  const auto text = read_text(file, kMostRecipeBytes);
  PODIUM_REQUIRE(text.has_value(), ExitCode::kUsage, file.string(),
                 ": no such recipe; `podium recipes` lists all recipes");
  return parse_recipe(*text, file.string(), overrides, models);
}

Precision precision_of(const Recipe& recipe) {
  if (recipe.precision != "bf16") return {};
  return {bf16_order_named(recipe.bf16_order).value_or(Bf16Order::kAmx)};
}

std::int64_t training_examples(const Recipe& recipe) {
  if (has_files(recipe)) return recipe.train_examples;
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

}  // namespace podium
