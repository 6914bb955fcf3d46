// Checks of a recipe as a whole.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/words.h"
#include "data/datasets/dataset.h"
#include "data/pictures/pictures.h"
#include "data/source/own_files.h"
#include "train/recipe/recipe_keys.h"

namespace podium {

void RecipeProblems::add_at(const Place& place, const std::string& text) {
  problems_.emplace_back(place.line, cat(place.text, ": ", text));
}

void RecipeProblems::add(const std::string& path, const std::string& text) {
  const auto place = places_.find(path);
  add_at(place == places_.end() ? Place{source_, 0} : place->second, text);
  mark_bad(path);
}

void RecipeProblems::raise() {
  if (problems_.empty()) return;
  std::stable_sort(problems_.begin(), problems_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr std::size_t kShown = 50;
  std::string text;
  for (std::size_t i = 0; i < std::min(problems_.size(), kShown); ++i)
    text += cat(text.empty() ? "" : "\n", problems_[i].second);
  if (problems_.size() > kShown) text += cat("\nand ", problems_.size() - kShown, " more");
  throw UserError(text, ExitCode::kUsage);
}

namespace {

bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

class Check {
 public:
  Check(const Recipe& recipe, RecipeProblems& problems) : r_(recipe), problems_(problems) {}

  void all() {
    required();
    texts();
    name();
    length();
    order();
    replicas();
    examples();
    optimizer(r_.optimizer, "optimizer");
    for (std::size_t i = 0; i < r_.optimizer_groups.size(); ++i) group(i);
    schedule();
    images();
    buckets();
    translations();
    init();
    fits();
  }

  // What depends on the number of examples.
  void counts() {
    examples();
    schedule();
  }

 private:
  bool good(std::initializer_list<const char*> paths) const {
    return std::none_of(paths.begin(), paths.end(),
                        [&](const char* path) { return problems_.is_bad(path); });
  }

  void required() {
    for (const RecipeKey& key : recipe_keys(r_)) {
      if (key.required && !problems_.was_given(key.path()) && good({key.path().c_str()}))
        problems_.add(key.path(), cat("`", key.path(), "` is missing: ", key.meaning));
    }
  }

  // A checkpoint holds the recipe, and JSON nothing but Unicode.
  void texts() {
    Recipe copy = r_;
    for (const RecipeKey& key : recipe_keys(r_)) {
      const auto* field = std::get_if<FieldOf<std::string>>(&key.field);
      const auto* list = std::get_if<FieldOf<std::vector<std::string>>>(&key.field);
      const std::string text = field != nullptr  ? (*field)(copy)
                               : list != nullptr ? join_words((*list)(copy))
                                                 : std::string();
      if (good({key.path().c_str()}) && !is_utf8(text))
        problems_.add(key.path(),
                      cat("`", key.path(), "` is not UTF-8; write it in that encoding"));
    }
  }

  // It names a folder of runs.
  void name() {
    if (!good({"name"})) return;
    const bool plain = std::none_of(r_.name.begin(), r_.name.end(), [](char c) {
      return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
    });
    if (r_.name.empty() || r_.name.front() == '.' || !plain || r_.name.size() > 200) {
      problems_.add("name", cat("`name` = ", quoted_text(r_.name),
                                " cannot name a folder; use up to 200 letters, digits, - and _"));
    }
  }

  void order() {
    if (!good({"precision", "bf16_order"}) || r_.bf16_order.empty() || r_.precision == "bf16")
      return;
    problems_.add("bf16_order",
                  cat("`bf16_order` is for `precision = \"bf16\"`, and this recipe has ",
                      quoted_text(r_.precision), "; remove one of the two"));
  }

  void length() {
    if (!good({"epochs", "steps"})) return;
    if (r_.epochs != 0 && r_.steps != 0) {
      problems_.add("steps", cat("`epochs` = ", r_.epochs, " and `steps` = ", r_.steps,
                                 " are both given; remove one of them"));
    } else if (r_.epochs == 0 && r_.steps == 0) {
      problems_.add("epochs", "the run has no length; give `epochs` or `steps`, at least 1");
    }
  }

  void buckets() {
    constexpr std::size_t kMost = 64;
    const std::vector<std::int64_t>& lengths = r_.pairs.buckets;
    if (lengths.empty() || !good({"data.buckets", "data.context"})) return;
    const bool rises = std::ranges::adjacent_find(lengths, std::greater_equal<>()) == lengths.end();
    if (rises && lengths.back() < r_.text.context && lengths.size() <= kMost) return;
    problems_.add("data.buckets",
                  cat("`data.buckets` must be at most ", kMost, " lengths that rise and lie below ",
                      "`data.context` = ", r_.text.context, ", which is the last one itself"));
  }

  void translations() {
    if (r_.evaluation.translations == 0 || !good({"evaluation.translations", "data.name"})) return;
    if (has_pairs(r_)) return;
    problems_.add("evaluation.translations",
                  cat("`evaluation.translations` has no effect with `data.name` = \"", r_.data,
                      "\"; only pairs of sentences are translated: remove it"));
  }

  void replicas() {
    if (!good({"batch", "replicas"}) || r_.batch % r_.replicas == 0) return;
    const std::int64_t below = r_.batch / r_.replicas * r_.replicas;
    std::int64_t fewer = std::min(r_.replicas, r_.batch), more = r_.replicas;
    while (r_.batch % fewer != 0) --fewer;
    while (more < r_.batch && r_.batch % more != 0) ++more;
    const std::string batches =
        below == 0 ? cat(r_.replicas) : cat(below, " or ", below + r_.replicas);
    const std::string counts =
        more <= r_.replicas || r_.batch % more != 0 ? cat(fewer) : cat(fewer, " or ", more);
    problems_.add(problems_.line_of("replicas") > problems_.line_of("batch") ? "replicas" : "batch",
                  cat("`batch` = ", r_.batch, " is not divisible by `replicas` = ", r_.replicas,
                      "; the nearest that are: batch ", batches, ", or replicas ", counts));
  }

  void examples() {
    if (!good({"data"})) return;
    if (has_files(r_)) return files();
    const bool own = r_.data == kOwnData, read = !own && !find_dataset(r_.data).files.empty();
    for (const char* path : {"train_examples", "test_examples"}) {
      const std::int64_t wanted =
          std::string(path) == "train_examples" ? r_.train_examples : r_.test_examples;
      if (good({path}) && own && wanted == 0)
        problems_.add(path, cat("`", path, "` is missing: with `data` = \"", kOwnData,
                                "\", it states how many examples the program has"));
      if (good({path}) && wanted != 0 && read) {
        problems_.add(path,
                      cat("`", path, "` = ", wanted, ": the size of \"", r_.data,
                          "\" is that of its files; only generated datasets have a free size"));
      }
    }
    if (!good({"train_examples", "validation"})) return;
    const std::int64_t left = training_examples(r_), all = left + r_.validation;
    if (left < 1) {
      problems_.add("validation", cat("`validation` = ", r_.validation, " leaves none of the ", all,
                                      " training examples; at most ", all - 1));
    } else if (good({"batch"}) && r_.batch > left) {
      problems_.add("batch", cat("`batch` = ", r_.batch, " is larger than the training set of ",
                                 count_text(left, "example")));
    } else {
      epochs(left);
    }
  }

  void epochs(std::int64_t examples) {
    if (good({"batch", "epochs"}) && r_.epochs > std::int64_t{4294967295} / (examples / r_.batch))
      problems_.add("epochs", cat("`epochs` = ", r_.epochs, " exceed 4294967295 steps"));
  }

  // How many there are is known when they have been indexed.
  void files() {
    const OwnFile* const own = own_file(r_.data);
    const bool reads_tokens = has_text(r_) || has_sentences(r_) || has_pairs(r_);
    if (good({"data.path"}) && r_.pictures.path.empty())
      problems_.add("data.path", cat("`data.path` is missing: name the ",
                                     own ? "file" : "folder of the pictures",
                                     ", as in data=", r_.data, ":", own ? own->example : "PHOTOS"));
    const std::string& tokenizer = r_.text.tokenizer;
    if (reads_tokens && good({"data.tokenizer"}) && !is_tokenizer_path(tokenizer) &&
        tokenizer != kByteTokens && tokenizer != kCharTokens && tokenizer != kWordTokens)
      problems_.add("data.tokenizer",
                    cat("`data.tokenizer` = \"", tokenizer,
                        "\" is none; it is bytes, chars, words, or a path, as ./tokenizer.json"));
    held_out();
    if (good({"validation"}) && r_.validation != 0)
      problems_.add("validation", cat("`validation` = ", r_.validation, " is for datasets; for ",
                                      own ? own->several : "pictures", ", use `data.held_out`, ",
                                      own ? own->held_out : "a share of each class"));
    if (!good({"train_examples", "batch"}) || r_.train_examples == 0) return;
    if (r_.batch > r_.train_examples) {
      problems_.add("batch", cat("`batch` = ", r_.batch, " is larger than the training set of ",
                                 count_text(r_.train_examples, "example")));
    } else {
      epochs(r_.train_examples);
    }
  }

  // The first of three that is given says what is held out.
  void held_out() {
    const char *const path = "data.held_out_path", *const files = "data.held_out_files",
                      *const share = "data.held_out";
    if (!good({path, files, share})) return;
    const auto useless = [&](const char* key, const char* beside) {
      problems_.add(key,
                    cat("`", key, "` has no effect beside `", beside, "`; remove one of them"));
    };
    const bool has_path = !r_.text.held_out_path.empty(),
               has_files = !r_.sounds.held_out_files.empty();
    if (has_path && has_files) useless(files, path);
    if ((has_path || has_files) && problems_.was_given(share))
      useless(share, has_path ? path : files);
  }

  void optimizer(const OptimizerOptions& own, const std::string& table) {
    const std::string momentum = cat(table, ".momentum"), nesterov = cat(table, ".nesterov"),
                      name = cat(table, ".name");
    if (good({momentum.c_str(), nesterov.c_str(), name.c_str()}) && own.nesterov &&
        own.momentum == 0 && (own.name == "sgd" || own.name == "muon"))
      problems_.add(nesterov, cat("`", nesterov, "` = true needs `", momentum, "` above 0"));
    const std::string decay = cat(table, ".decay");
    if (good({decay.c_str(), name.c_str()}) && own.decay != Decay::kOnce && is_decoupled(own))
      problems_.add(decay, cat("`", decay,
                               "` = \"per-replica\" is for weight decay that is added to "
                               "gradients; that of adamw is not, so use \"once\""));
    const std::string epochs = cat(table, ".epochs");
    if (good({epochs.c_str(), name.c_str()}) && own.epochs != 0 && needs_matrices(own))
      problems_.add(epochs, cat("`", epochs,
                                "` needs another optimizer: muon sets the scale of "
                                "its matrices at every step, so they would not stay as they are"));
  }

  void group(std::size_t index) {
    const OptimizerGroup& its = r_.optimizer_groups[index];
    const std::string table = cat(kGroupTable, ".", index + 1), parameters = table + ".parameters";
    if (good({parameters.c_str()}) &&
        (its.parameters.empty() || std::ranges::count(its.parameters, "") != 0))
      problems_.add(parameters,
                    cat("`", parameters, "` needs patterns of names, such as \"fc.*\""));
    if (!its.frozen) return optimizer(its.optimizer, table);
    for (const RecipeKey& key : recipe_keys(r_)) {
      if (key.group == index + 1 && key.name != "parameters" && key.name != "frozen" &&
          problems_.was_given(key.path()) && good({key.path().c_str()}))
        problems_.add(key.path(), cat("`", key.path(), "` has no effect if `", table,
                                      ".frozen` = true; remove it"));
    }
  }

  void schedule() {
    const ScheduleOptions& s = r_.schedule;
    if (!good({"schedule.name", "schedule.boundaries", "schedule.factors"})) return;
    if (good({"schedule.warmup", "batch", "data"}) && r_.batch > 0 && total_steps(r_) > 0) {
      const double steps =
          s.unit == "epoch" ? s.warmup * static_cast<double>(steps_per_epoch(r_)) : s.warmup;
      if (steps > static_cast<double>(total_steps(r_)))
        problems_.add(
            "schedule.warmup",
            cat("`schedule.warmup` = ", number_text(s.warmup), s.unit == "epoch" ? " epochs" : "",
                " is longer than the run of ", count_text(total_steps(r_), "step"),
                "; set a shorter one, or 0 for none"));
    }
    if (s.name == "exponential") {
      if (good({"schedule.time_constant"}) && s.time_constant == 0) {
        problems_.add("schedule.time_constant",
                      "an exponential schedule needs `schedule.time_constant` above 0");
      }
      return;
    }
    if (s.name != "piecewise" && s.name != "linear") return;
    const bool linear = s.name == "linear";
    const std::size_t wanted = s.boundaries.size() + (linear ? 0 : 1);
    if (s.boundaries.empty()) {
      problems_.add("schedule.boundaries",
                    cat("a ", s.name, " schedule needs `schedule.boundaries`"));
    } else if (s.factors.size() != wanted) {
      problems_.add("schedule.factors",
                    cat("`schedule.factors` has ", s.factors.size(), " entries; a ", s.name,
                        " schedule of ", s.boundaries.size(), " boundaries needs ", wanted));
    }
    for (std::size_t i = 1; i < s.boundaries.size(); ++i) {
      if (s.boundaries[i] > s.boundaries[i - 1]) continue;
      problems_.add("schedule.boundaries",
                    cat("`schedule.boundaries` must increase: ", number_text(s.boundaries[i]),
                        " follows ", number_text(s.boundaries[i - 1])));
      break;
    }
  }

  void init() {
    const InitOptions& its = r_.init;
    if (!good({"init.from", "init.hash", "init.map", "init.fresh"})) return;
    const auto useless = [&](const char* key, bool given) {
      if (given && its.from.empty())
        problems_.add(key, cat("`", key, "` has no effect without `init.from`; remove it"));
    };
    useless("init.hash", !its.hash.empty());
    useless("init.map", !its.map.empty());
    useless("init.fresh", !its.fresh.empty());
    for (const std::string& rule : its.map) {
      const std::size_t equals = rule.find('=');
      const std::string from = rule.substr(0, equals);
      const std::string to = equals == std::string::npos ? "" : rule.substr(equals + 1);
      const auto from_stars = std::ranges::count(from, '*'), to_stars = std::ranges::count(to, '*');
      if (equals == std::string::npos || from.empty() || from_stars > 1 || to_stars > from_stars) {
        problems_.add("init.map",
                      cat("`init.map`: ", quoted_text(rule),
                          " is not a rule; write \"old*=new*\", at most one * on each "
                          "side, and one on the right only if there is one on the left"));
        break;
      }
    }
    if (std::ranges::count(its.fresh, "") != 0)
      problems_.add("init.fresh", "`init.fresh` needs patterns of names, such as \"fc.*\"");
  }

  // What depends on the shape of the dataset's images.
  void images() {
    if (!good({"data"}) || r_.data == kOwnData) return;  // a trainer checks those of a program
    if (own_file(r_.data) != nullptr) return no_images();
    const auto add = [&](const std::vector<OptionProblem>& found) {
      for (const OptionProblem& problem : found)
        if (good({problem.key.c_str()})) problems_.add(problem.key, problem.text);
    };
    if (has_pictures(r_)) {
      if (good({"normalise.name"})) add(normalise_problems(r_.normalise, 3));
      if (!good({"data.size"})) return;
      add(picture_problems(r_.pictures, r_.augment));
      add(augment_problems(r_.augment, r_.pictures.size, r_.pictures.size));
      return;
    }
    const DatasetInfo& info = find_dataset(r_.data);
    if (good({"normalise.name"})) add(normalise_problems(r_.normalise, info.channels));
    if (good({"augment.crop"}) && r_.augment.crop != "none")
      problems_.add("augment.crop",
                    cat("`augment.crop` = \"", r_.augment.crop,
                        "\" is for pictures in files (data = \"folder:PATH\"); the images of \"",
                        r_.data, "\" have one size: use `augment.shift`"));
    add(augment_problems(r_.augment, info.height, info.width));
  }

  // Of text and tables: nothing reads these keys.
  void no_images() {
    const Recipe defaults;
    for (const RecipeKey& key : recipe_keys(r_)) {
      const std::string path = key.path();
      const bool of_images =
          key.table == "augment" || key.table == "normalise" || path == "evaluation.views";
      if (of_images && good({path.c_str()}) && value_text(key, r_) != value_text(key, defaults))
        problems_.add(path, cat("`", path, "` is for images, and `data` = \"", r_.data,
                                "\" has none; remove it"));
    }
  }

  // A value that nothing would read is a misunderstanding.
  void fits() {
    Recipe defaults;
    defaults.optimizer_groups.resize(r_.optimizer_groups.size());
    for (const RecipeKey& key : recipe_keys(r_)) {
      const std::string name_key = name_key_of(key.table);
      if (key.fits.empty() || !good({key.path().c_str(), name_key.c_str()})) continue;
      const std::string& name = name_of_table(r_, key.table);
      if (key.group != 0 && r_.optimizer_groups[key.group - 1].frozen) continue;
      if (key.fits_name(name) || value_text(key, r_) == value_text(key, defaults)) continue;
      std::vector<std::string> others;
      for (const RecipeKey& other : recipe_keys(r_)) {
        if (other.table == key.table && !other.fits.empty() && other.fits_name(name))
          others.push_back("`" + other.name + "`");
      }
      problems_.add(key.path(),
                    cat("`", key.path(), "` has no effect with `", name_key, "` = \"", name, "\"; ",
                        others.empty() ? "remove it" : "that uses " + join_words(others)));
    }
  }

  const Recipe& r_;
  RecipeProblems& problems_;
};

}  // namespace

void check_recipe(const Recipe& recipe, RecipeProblems& problems) { Check(recipe, problems).all(); }

void check_counts(const Recipe& recipe) {
  RecipeProblems problems(cat("recipe ", recipe.name, ", with ",
                              count_text(recipe.train_examples, "example"), " to train on"));
  Check(recipe, problems).counts();
  problems.raise();
}

}  // namespace podium
