#include "train/recipe/recipe_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/words.h"

namespace podium {
namespace {

std::string tidy_exponent(std::string text) {
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::size_t digits = e + 1;
  const bool negative = text[digits] == '-';
  if (text[digits] == '-' || text[digits] == '+') ++digits;
  while (digits + 1 < text.size() && text[digits] == '0') ++digits;
  return text.substr(0, e + 1) + (negative ? "-" : "") + text.substr(digits);
}

// The shortest decimal that is nearest to this very value among those of its type.
template <typename T>
std::string shortest(T value) {
  char buffer[64];
  // What people write in full: 100000, 0.0001.
  const bool in_full = (std::trunc(value) == value && std::abs(value) < T{1e15}) ||
                       (std::abs(value) >= T{9e-5} && std::abs(value) < T{1e7});
  const auto format = in_full ? std::chars_format::fixed : std::chars_format::general;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  return tidy_exponent(std::string(buffer, end.ptr));
}

}  // namespace

std::string to_string(const NumberRange& range) {
  const bool low = std::isfinite(range.least), high = std::isfinite(range.most);
  std::string text;
  if (low) text = cat(range.least_open ? "above " : "at least ", number_text(range.least));
  if (low && high) text += " and ";
  if (high) text += cat(range.most_open ? "below " : "at most ", number_text(range.most));
  return text;
}

bool RecipeKey::fits_name(const std::string& table_name) const {
  return fits.empty() || std::find(fits.begin(), fits.end(), table_name) != fits.end();
}

std::size_t group_of_path(const std::string& path) {
  const std::string start = cat(kGroupTable, ".");
  if (!path.starts_with(start)) return 0;
  std::size_t number = 0;
  const char* begin = path.data() + start.size();
  const char* end = path.data() + path.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  const bool whole = error == std::errc() && *begin != '0' && (rest == end || *rest == '.');
  return whole && number <= kMostOptimizerGroups ? number : 0;
}

const RecipeKey* find_recipe_key(const std::string& path) {
  for (const RecipeKey& key : recipe_keys(group_of_path(path))) {
    if (key.path() == path) return &key;
  }
  return nullptr;
}

const std::string& name_of_table(const Recipe& recipe, const std::string& table) {
  const RecipeKey* key = find_recipe_key(name_key_of(table));
  PODIUM_CHECK(key != nullptr, table);
  // The accessors hand out references to change; nothing is changed here.
  return std::get<FieldOf<std::string>>(key->field)(const_cast<Recipe&>(recipe));
}

std::string number_text(double value) { return shortest(value); }

std::string number_text(float value) {
  std::string text = shortest(value);
  // Reading goes through double; the shortest float is off by one ULP after that in rare cases.
  if (static_cast<float>(std::stod(text)) != value) text = shortest(static_cast<double>(value));
  return text;
}

std::string quoted_text(const std::string& text) {
  std::string quoted = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F, control characters too
      quoted += cat("\\u00", kDigits[next >> 4], kDigits[next & 15]);
      ++i;
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += cat("\\u00", kDigits[byte >> 4], kDigits[byte & 15]);
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  return quoted;
}

void reset_key(const RecipeKey& key, Recipe& recipe) {
  Recipe defaults;
  defaults.optimizer_groups.resize(recipe.optimizer_groups.size());
  std::visit([&](const auto& access) { access(recipe) = access(defaults); }, key.field);
}

std::string type_text(const RecipeKey& key) {
  struct Name {
    const char* operator()(const FieldOf<std::string>&) const { return "a string"; }
    const char* operator()(const FieldOf<Decay>&) const { return "a string"; }
    const char* operator()(const FieldOf<bool>&) const { return "true or false"; }
    const char* operator()(const FieldOf<int>&) const { return "an integer"; }
    const char* operator()(const FieldOf<std::int64_t>&) const { return "an integer"; }
    const char* operator()(const FieldOf<std::uint64_t>&) const { return "an integer"; }
    const char* operator()(const FieldOf<float>&) const { return "a number"; }
    const char* operator()(const FieldOf<double>&) const { return "a number"; }
    const char* operator()(const FieldOf<std::vector<double>>&) const {
      return "an array of numbers";
    }
    const char* operator()(const FieldOf<std::vector<std::int64_t>>&) const {
      return "an array of integers";
    }
    const char* operator()(const FieldOf<std::vector<std::string>>&) const {
      return "an array of strings";
    }
  };
  return std::visit(Name{}, key.field);
}

std::string value_text(const RecipeKey& key, const Recipe& recipe) {
  struct Text {
    std::string operator()(const std::string& value) const { return quoted_text(value); }
    std::string operator()(Decay value) const {
      return quoted_text(value == Decay::kOnce ? "once" : "per-replica");
    }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int value) const { return cat(value); }
    std::string operator()(std::int64_t value) const { return cat(value); }
    std::string operator()(std::uint64_t value) const { return cat(value); }
    std::string operator()(float value) const { return number_text(value); }
    std::string operator()(double value) const { return number_text(value); }
    std::string operator()(const std::vector<double>& values) const {
      std::vector<std::string> texts;
      for (const double value : values) texts.push_back(number_text(value));
      return cat("[", join_words(texts), "]");
    }
    std::string operator()(const std::vector<std::int64_t>& values) const {
      std::vector<std::string> texts;
      for (const std::int64_t value : values) texts.push_back(cat(value));
      return cat("[", join_words(texts), "]");
    }
    std::string operator()(const std::vector<std::string>& values) const {
      std::vector<std::string> texts;
      for (const std::string& value : values) texts.push_back(quoted_text(value));
      return cat("[", join_words(texts), "]");
    }
  };
  if (key.group > recipe.optimizer_groups.size()) return "none";
  // The accessors hand out references to change; nothing is changed here.
  auto& readable = const_cast<Recipe&>(recipe);
  return std::visit([&](const auto& access) { return Text{}(access(readable)); }, key.field);
}

std::string recipe_keys_markdown() {
  Recipe defaults;
  defaults.optimizer_groups.resize(1);
  std::string text, table = "none";
  for (const RecipeKey& key : recipe_keys(1)) {
    if (key.table != table) {
      table = key.table;
      text +=
          cat("\n### ",
              table.empty()    ? std::string("Top level")
              : key.group != 0 ? cat("`[[", kGroupTable, "]]`")
                               : cat("`[", table, "]`"),
              "\n\n| key | type | unit | default | meaning |\n| --- | --- | --- | --- | --- |\n");
    }
    std::string type = type_text(key);
    if (!key.choices.empty() && !key.required) {
      type.clear();
      for (const std::string& choice : key.choices)
        type += cat(type.empty() ? "`" : ", `", choice, "`");
    } else if (key.required && !key.words().empty()) {
      type = "a name";
    }
    if (!key.numbers.empty()) {
      type.clear();
      for (const std::int64_t number : key.numbers) type += cat(type.empty() ? "" : ", ", number);
    }
    const std::string range = to_string(key.range);
    if (!range.empty()) type += ", " + range;
    const bool of_a_pair = table.empty() && (key.name == "epochs" || key.name == "steps");
    std::string fallback =
        key.required || of_a_pair ? "none" : cat("`", value_text(key, defaults), "`");
    if (!key.fallback.empty()) fallback = key.fallback;
    std::string meaning = key.meaning;
    if (!key.fits.empty()) meaning = cat("(", join_words(key.fits), ") ", meaning);
    text += cat("| `", key.name, "` | ", type, " | ", key.unit, " | ", fallback, " | ", meaning,
                " |\n");
  }
  return text.substr(1);
}

std::string key_of_usual_name(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"lr", "optimizer.learning_rate"},
      {"learning-rate", "optimizer.learning_rate"},
      {"learning_rate", "optimizer.learning_rate"},
      {"wd", "optimizer.weight_decay"},
      {"weight-decay", "optimizer.weight_decay"},
      {"weight_decay", "optimizer.weight_decay"},
      {"momentum", "optimizer.momentum"},
      {"bs", "batch"},
      {"batch_size", "batch"},
      {"batch-size", "batch"},
      {"optim", "optimizer.name"},
      {"warmup", "schedule.warmup"},
      {"size", "data.size"},
      {"target", "data.target"},
      {"clip", "optimizer.clip_norm"}};
  for (const auto& [usual, key] : kNames)
    if (name == usual) return key;
  return "";
}

}  // namespace podium
