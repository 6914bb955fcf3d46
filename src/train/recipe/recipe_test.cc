#include "train/recipe/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "train/recipe/recipe_keys.h"
#include "train/recipe/recipe_test_util.h"

namespace podium {
namespace {

TEST(Recipe, keys_not_given_have_their_defaults) {
  const Recipe recipe = parse_recipe(kMinimal, "some/folder/small.toml");
  EXPECT_EQ(recipe.name, "small");
  EXPECT_EQ(recipe.batch, 256);
  EXPECT_EQ(recipe.replicas, 8);
  EXPECT_EQ(recipe.epochs, 2);
  EXPECT_EQ(recipe.steps, 0);
  EXPECT_EQ(recipe.precision, "fp32");
  EXPECT_EQ(recipe.optimizer, OptimizerOptions{});
  EXPECT_EQ(recipe.schedule, ScheduleOptions{});
  EXPECT_EQ(recipe.augment, AugmentOptions{});
}

TEST(Recipe, every_key_is_read_and_written_back_the_same) {
  const std::string text =
      "name = \"all\"\n"
      "description = \"a \\\"quoted\\\" line\"\n"
      "model = \"mnist\"\n"
      "data = \"glyphs\"\n"
      "train_examples = 5000\n"
      "test_examples = 1000\n"
      "validation = 100\n"
      "batch = 96\n"
      "replicas = 3\n"
      "seed = 9223372036854775807\n"
      "steps = 70\n"
      "precision = \"fp32\"\n"
      "label_smoothing = 0.1\n"
      "\n[optimizer]\n"
      "name = \"sgd\"\n"
      "learning_rate = 0.4\n"
      "momentum = 0.9\n"
      "nesterov = true\n"
      "trust = 0.001\n"
      "beta1 = 0.9\n"
      "beta2 = 0.999\n"
      "epsilon = 1e-8\n"
      "weight_decay = 0.0005\n"
      "decay = \"per-replica\"\n"
      "decay_all = true\n"
      "clip_norm = 0.5\n"
      "\n[[optimizer.group]]\n"
      "parameters = [\"*.conv.weight\", \"a \\\"quoted\\\" one\"]\n"
      "frozen = false\n"
      "name = \"muon\"\n"
      "learning_rate = 0.24\n"
      "momentum = 0.6\n"
      "nesterov = true\n"
      "trust = 0.001\n"
      "beta1 = 0.9\n"
      "beta2 = 0.999\n"
      "epsilon = 1e-8\n"
      "weight_decay = 0\n"
      "decay = \"once\"\n"
      "decay_all = false\n"
      "epochs = 0\n"
      "\n[[optimizer.group]]\n"
      "parameters = [\"*.bias\"]\n"
      "frozen = false\n"
      "name = \"sgd\"\n"
      "learning_rate = 100\n"
      "momentum = 0.5\n"
      "nesterov = false\n"
      "trust = 0.001\n"
      "beta1 = 0.9\n"
      "beta2 = 0.999\n"
      "epsilon = 1e-8\n"
      "weight_decay = 0.001\n"
      "decay = \"per-replica\"\n"
      "decay_all = true\n"
      "epochs = 2.5\n"
      "\n[[optimizer.group]]\n"
      "parameters = [\"fc2.*\"]\n"
      "frozen = true\n"
      "\n[schedule]\n"
      "name = \"linear\"\n"
      "boundaries = [0, 5, 24]\n"
      "factors = [0, 1, 0.001]\n"
      "unit = \"epoch\"\n"
      "time_constant = 0\n"
      "floor = 0\n"
      "power = 2\n"
      "warmup = 0.5\n"
      "\n[init]\n"
      "from = \"runs/a\"\n"
      "hash = \"00f1\"\n"
      "map = [\"a.*=b.*\", \"c=\"]\n"
      "fresh = [\"fc.*\"]\n"
      "\n[normalise]\n"
      "name = \"per-channel\"\n"
      "mean = [0.5]\n"
      "deviation = [0.25]\n"
      "\n[augment]\n"
      "shift = 2\n"
      "padding = \"zero\"\n"
      "rotate_degrees = 7.5\n"
      "scale = 0.1\n"
      "shear = 0.2\n"
      "elastic = 1.5\n"
      "elastic_cell = 9\n"
      "cutout = 4\n"
      "flip = \"alternating\"\n"
      "brightness = 0.4\n"
      "contrast = 0.3\n"
      "saturation = 0.2\n"
      "hue = 0.1\n"
      "crop = \"none\"\n"
      "crop_area = [0.08, 1]\n"
      "crop_ratio = [0.75, 1.3333333333333333]\n"
      "\n[evaluation]\n"
      "every_epochs = 0\n"
      "batch = 7\n"
      "views = 6\n"
      "streams = 3\n"
      "\n[run]\n"
      "checkpoint_every_steps = 10\n"
      "checkpoints_kept = 2\n"
      "keep_best = true\n"
      "hash_every_steps = 5\n"
      "audit_every_steps = 200\naudit_backend = \"cpu\"\n"
      "audit_then = \"resume\"\n"
      "witness = true\n"
      "log_every_steps = 3\n"
      "histograms = true\n"
      "recompute = \"blocks\"\n";
  EXPECT_EQ(to_toml(parse_recipe(text, "x.toml")), text);
}

TEST(Recipe, committed_recipes_are_sound) {
  for (const std::string& name : recipe_names()) {
    const Recipe recipe = read_recipe(find_recipe(name));
    EXPECT_EQ(recipe.name, name);
    EXPECT_FALSE(recipe.description.empty());
    EXPECT_EQ(to_toml(parse_recipe(to_toml(recipe), "again")), to_toml(recipe));
  }
}

TEST(Recipe, numbers_are_written_as_people_write_them_and_read_back_exactly) {
  EXPECT_EQ(number_text(0.01f), "0.01");
  EXPECT_EQ(number_text(0.01), "0.01");
  EXPECT_EQ(number_text(1e-8f), "1e-8");
  EXPECT_EQ(number_text(0.0001), "0.0001");
  EXPECT_EQ(number_text(2000.0), "2000");
  EXPECT_EQ(number_text(100000.0), "100000");
  EXPECT_EQ(number_text(1e30), "1e30");
  EXPECT_EQ(number_text(0.999f), "0.999");
  EXPECT_EQ(number_text(0.0), "0");
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525u + 1013904223u;
    const auto value = std::bit_cast<float>(state & 0x7effffffu);
    EXPECT_EQ(static_cast<float>(std::stod(number_text(value))), value);
  }
}

TEST(Recipe, unknown_key_names_its_line_and_the_nearest_known_one) {
  EXPECT_EQ(refusal(minimal_and("[optimizer]\nlerning_rate = 0.1\n")),
            "x.toml:7: unknown key `optimizer.lerning_rate`; the nearest known one is "
            "`optimizer.learning_rate`");
  EXPECT_EQ(refusal(minimal_and("learning_rate = 0.1\n")),
            "x.toml:6: unknown key `learning_rate`; the nearest known one is "
            "`optimizer.learning_rate`");
  EXPECT_EQ(refusal(minimal_and("[optimiser]\nlearning_rate = 0.1\n")),
            "x.toml:6: unknown key `optimiser`; the nearest known one is `optimizer`");
}

TEST(Recipe, a_file_that_is_none_is_refused_in_few_lines) {
  const std::string name(70, 'k');
  EXPECT_EQ(refusal(minimal_and(name + " = 1\n")),
            "x.toml:6: unknown key `" + name + "`; `podium recipes --keys` lists all keys");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += cat("k", i, " = 1\n");
  const std::string text = refusal(minimal_and(many));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 50);
  EXPECT_TRUE(text.starts_with("x.toml:6: unknown key `k0`")) << text;
  EXPECT_TRUE(text.ends_with("\nand 950 more")) << text;
}

TEST(Recipe, wrong_type_names_both_types) {
  EXPECT_EQ(refusal("model = \"mnist\"\ndata = \"glyphs\"\nbatch = \"256\"\nepochs = 1\n"),
            "x.toml:3: `batch` must be an integer, got the string \"256\"");
  EXPECT_EQ(refusal(minimal_and("seed = 1.5\n")),
            "x.toml:6: `seed` must be an integer, got the number 1.5");
  EXPECT_EQ(refusal(minimal_and("optimizer = \"adam\"\n")),
            "x.toml:6: `optimizer` must be a table, [optimizer], got the string \"adam\"");
  EXPECT_EQ(refusal(minimal_and("[schedule]\nfactors = [1, \"2\"]\n")),
            "x.toml:7: `schedule.factors` must be an array of numbers; element 2 is the string "
            "\"2\"");
  EXPECT_EQ(refusal(minimal_and("[optimizer]\nnesterov = 1\n")),
            "x.toml:7: `optimizer.nesterov` must be true or false, got the integer 1");
  EXPECT_EQ(refusal(minimal_and("[augment]\nflip = true\n")),
            "x.toml:7: `augment.flip` must be a string, got the boolean true");
  EXPECT_EQ(refusal(minimal_and("description = { a = 1 }\n")),
            "x.toml:6: `description` must be a string, got a table");
}

TEST(Recipe, all_errors_are_shown_at_once_in_the_order_of_lines) {
  EXPECT_EQ(
      refusal("model = \"mnits\"\nbatch = \"256\"\ndata = \"glyphs\"\n[augment]\nshft = 2\n",
              {"precision=fp16", "sed=3"}),
      "x.toml: the run has no length; give `epochs` or `steps`, at least 1\n"
      "x.toml:1: `model` = \"mnits\" is unknown; known: mnist, davidnet, resnet32, sprint, "
      "resnet18, resnet34, resnet50, resnet18-zero, resnet34-zero, resnet50-zero, gpt, llama, "
      "lstm, gru, transformer, text-cnn, bilstm, bigru, perceptron; "
      "the nearest is \"mnist\"\n"
      "x.toml:2: `batch` must be an integer, got the string \"256\"\n"
      "x.toml:5: unknown key `augment.shft`; the nearest known one is `augment.shift`\n"
      "`precision=fp16`: `precision` = \"fp16\" is unknown; known: fp32, "
      "bf16; the nearest is \"fp32\"\n"
      "`sed=3`: unknown key `sed`; the nearest known one is `seed`");
}

TEST(Recipe, names_the_order_of_bf16_sums_or_leaves_it_to_a_device) {
  EXPECT_EQ(precision_of(parse_recipe(minimal_and(""), "x.toml")), Precision{});
  const Recipe unnamed = parse_recipe(minimal_and("precision = \"bf16\"\n"), "x.toml");
  EXPECT_EQ(precision_of(unnamed).bf16, Bf16Order::kAmx);
  EXPECT_EQ(to_toml(unnamed).find("bf16_order"), std::string::npos);
  for (const Bf16Order order : kBf16Orders) {
    const Recipe named = parse_recipe(minimal_and("precision = \"bf16\"\n"), "x.toml",
                                      {"bf16_order=" + std::string(name_of(order))});
    EXPECT_EQ(precision_of(named).bf16, order);
    EXPECT_EQ(to_toml(parse_recipe(to_toml(named), "again")), to_toml(named));
  }
  EXPECT_EQ(refusal(minimal_and("precision = \"bf16\"\nbf16_order = \"hoper\"\n")),
            "x.toml:7: `bf16_order` = \"hoper\" is unknown; known: amx, vdpbf16ps, ampere, hopper; "
            "the nearest is \"hopper\"");
  EXPECT_EQ(refusal(minimal_and("bf16_order = \"amx\"\n")),
            "x.toml:6: `bf16_order` is for `precision = \"bf16\"`, and this recipe has \"fp32\"; "
            "remove one of the two");
}

TEST(Recipe, text_that_is_no_toml_is_one_error_with_its_place) {
  const std::string text = refusal("model = \"mnist\"\nbatch = = 3\n");
  EXPECT_EQ(text.find("x.toml:2:9: not TOML: "), 0u) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(Recipe, characters_beyond_ascii_stand_in_comments_and_one_line_strings_alone) {
  const std::string fine = minimal_and("# caf\u00e9\ndescription = \"\u00e9 \u3042\" # \u00fc\n");
  EXPECT_EQ(parse_recipe(fine, "x.toml").description, "\u00e9 \u3042");
  for (const char* wrong : {"\u00e9 = 1\n", "description = \u00e9\n", "seed = 1 \u00fc\n",
                            "description = \"\"\"\\\n \u00e9\"\"\"\n"}) {
    const std::string text = refusal(minimal_and(wrong));
    EXPECT_NE(text.find("not TOML: a non-ASCII character"), std::string::npos) << text;
  }
  EXPECT_EQ(parse_recipe(kMinimal, "x.toml", {"description=\u00e9t\u00e9"}).description,
            "\u00e9t\u00e9");
}

// toml++ reads on in a bare value behind a quote; its tests for white space are undefined there.
TEST(Recipe, a_quote_within_a_bare_value_or_name_begins_no_string) {
  for (const char* wrong : {"seed = 3hoZ.\x01o'th\ufefber'\n", "seed = 3'\u00e9'\n",
                            "seed = 1\"#\" \n", "a'b' = 1\n"}) {
    const std::string text = refusal(minimal_and(wrong));
    EXPECT_EQ(text.find("x.toml:6:"), 0u) << text;
    EXPECT_NE(text.find("not TOML: a string begins at a line's start"), std::string::npos) << text;
  }
  for (const char* wrong : {"seed = 3.'\u00e9'\n", "optimizer.\"\u00e9\" = 1\n"}) {
    const std::string text = refusal(minimal_and(wrong));
    EXPECT_NE(text.find("a key that follows a dot"), std::string::npos) << text;
  }
  EXPECT_EQ(parse_recipe(minimal_and("'optimizer'.\"name\" = \"sgd\"\n"), "x.toml").optimizer.name,
            "sgd");
}

TEST(Recipe, a_table_without_a_name_is_an_error_with_its_place) {
  for (const char* header : {"[=]\n", "[.a]\n", "[\n", "[[\t?]]\n"}) {
    const std::string text = refusal(minimal_and(header));
    EXPECT_EQ(text.find("x.toml:6:"), 0u) << text;
    EXPECT_NE(text.find("expected the name of a table here"), std::string::npos) << text;
  }
}

TEST(Recipe, a_brace_in_place_of_an_element_is_an_error_with_its_place) {
  for (const char* wrong :
       {"seed = [}\n", "seed = [ # [\n}]\n", "seed = [1, }\n", "seed = ['[', {a = 1}, }]\n"}) {
    const std::string text = refusal(minimal_and(wrong));
    EXPECT_EQ(text.find("x.toml:"), 0u) << text;
    EXPECT_NE(text.find("} may not follow [ or a comma"), std::string::npos) << text;
  }
  EXPECT_EQ(parse_recipe(minimal_and("description = '[}'\n"), "x.toml").description, "[}");
}

// `names` names, joined by dots.
std::string dotted(int names) {
  std::string key;
  for (int i = 1; i < names; ++i) key += "a.";
  return key + "a";
}

// toml++ makes a table of each name and destroys them one in the other: half a million overflow the
// stack.
TEST(Recipe, a_key_of_too_many_dots_is_an_error_with_its_place) {
  const std::string deep = dotted(500000), rule = "a key with more than 16 dots; ";
  const auto expect_refused = [&](const std::string& text, const std::string& place) {
    EXPECT_EQ(refusal(minimal_and(text)).find(cat("x.toml:", place, ": ", rule)), 0u)
        << refusal(minimal_and(text)).substr(0, 200);
  };
  expect_refused(cat("[", deep, "]\n"), "6:35");
  expect_refused(cat("[[ ", deep, "]]\n"), "6:37");
  expect_refused(cat(deep, " = 1\n"), "6:34");
  expect_refused(cat("a = { b = 1, ", deep, " = 1 }\n"), "6:47");
  expect_refused(cat("\"a\" . 'a' . ", deep, " = 1\n"), "6:42");
  // After strings of several lines that end in quotes of their own.
  expect_refused(cat("a = { b = '''x'''', ", deep, " = 1 }\n"), "6:54");
  expect_refused(cat("a = { b = \"\"\"x\"\"\"\"\", ", deep, " = 1 }\n"), "6:55");
  EXPECT_NE(refusal(kMinimal, {cat("seed={", deep, "=1}")}).find("`seed` must be an integer"),
            std::string::npos);
}

TEST(Recipe, dots_elsewhere_than_in_a_key_are_no_matter) {
  const std::string dots(40, '.');
  const Recipe recipe = parse_recipe(
      minimal_and("description = \"" + dots + "\" # " + dots + "\n[schedule]\nname = \"linear\"\n" +
                  "boundaries = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, " +
                  "12.5, 13.5, 14.5, 15.5, 16.5, 17.5]\nfactors = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, " +
                  "1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]\n"),
      "x.toml");
  EXPECT_EQ(recipe.description, dots);
  EXPECT_EQ(recipe.schedule.boundaries.size(), 18u);
}

// What may nest deepest: inline tables in one another, each under a key of as many dots as may be.
TEST(Recipe, tables_as_deep_as_may_be_are_read_and_refused) {
  std::string text, end;
  for (int level = 0; level < 200; ++level) {
    text += cat("{", dotted(17), " = ");
    end += '}';
  }
  EXPECT_NE(refusal(minimal_and("description = " + text + "1" + end + "\n"))
                .find("`description` must be a string, got a table"),
            std::string::npos);
}

TEST(Recipe, missing_keys_are_named) {
  const std::string text = refusal("");
  for (const char* part : {"`model` is missing", "`data` is missing", "`batch` is missing",
                           "give `epochs` or `steps`"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Recipe, batch_not_divisible_by_replicas_names_values_that_work) {
  EXPECT_EQ(refusal(minimal_and(""), {"batch=250"}),
            "`batch=250`: `batch` = 250 is not divisible by `replicas` = 8; "
            "the nearest that are: batch 248 or 256, or replicas 5 or 10");
  EXPECT_EQ(refusal(minimal_and(""), {"replicas=300"}),
            "`replicas=300`: `batch` = 256 is not divisible by `replicas` = "
            "300; the nearest that are: batch 300, or replicas 256");
}

TEST(Recipe, values_out_of_range_name_the_range) {
  EXPECT_EQ(refusal(minimal_and("[optimizer]\nmomentum = 1\n")),
            "x.toml:7: `optimizer.momentum` is 1; it must be at least 0 and below 1");
  EXPECT_EQ(refusal(minimal_and(""), {"optimizer.epsilon=0"}),
            "`optimizer.epsilon=0`: `optimizer.epsilon` is 0; it must be above "
            "0");
  EXPECT_EQ(refusal(minimal_and("[optimizer]\nlearning_rate = inf\n")),
            "x.toml:7: `optimizer.learning_rate` is inf; it must be a finite number");
  EXPECT_NE(refusal(minimal_and("seed = -1\n")).find("at least 0"), std::string::npos);
}

TEST(Recipe, exactly_one_of_epochs_and_steps) {
  EXPECT_EQ(refusal(minimal_and("steps = 9\n")),
            "x.toml:6: `epochs` = 2 and `steps` = 9 are both given; remove one of them");
}

TEST(Recipe, overriding_one_of_epochs_and_steps_replaces_the_other) {
  const Recipe by_steps = parse_recipe(kMinimal, "x.toml", {"steps=9"});
  EXPECT_EQ(by_steps.steps, 9);
  EXPECT_EQ(by_steps.epochs, 0);
  const Recipe by_epochs = parse_recipe(to_toml(by_steps), "x.toml", {"epochs=3"});
  EXPECT_EQ(by_epochs.steps, 0);
  EXPECT_EQ(by_epochs.epochs, 3);
  EXPECT_NE(refusal(kMinimal, {"steps=9", "epochs=3"}).find("both given"), std::string::npos);
}

TEST(Recipe, overrides_are_toml_values_or_bare_words) {
  const Recipe recipe = parse_recipe(
      kMinimal, "x.toml",
      {"seed=7", "optimizer.name=adam", "optimizer.learning_rate=1e-2", "schedule.name=\"linear\"",
       "schedule.boundaries=[0, 10]", "schedule.factors=[1.0, 0]", "description=12", "seed=8"});
  EXPECT_EQ(recipe.seed, 8u);
  EXPECT_EQ(recipe.optimizer.name, "adam");
  EXPECT_EQ(recipe.optimizer.learning_rate, 0.01);
  EXPECT_EQ(recipe.schedule.factors, (std::vector<double>{1, 0}));
  EXPECT_EQ(recipe.description, "12");
  EXPECT_EQ(refusal(kMinimal, {"seed=x"}), "`seed=x`: `seed` must be an integer, got `x`");
  EXPECT_EQ(refusal(kMinimal, {"seed=1\nbatch=2"}),
            "`seed=1\nbatch=2`: `seed` must be an integer, got `1\nbatch=2`");
  EXPECT_NE(refusal(kMinimal, {"seed"}).find("written key=value"), std::string::npos);
}

TEST(Recipe, schedule_keys_that_its_name_does_not_read_are_refused) {
  EXPECT_EQ(refusal(minimal_and("[schedule]\nname = \"constant\"\nfloor = 0.1\n")),
            "x.toml:8: `schedule.floor` has no effect with `schedule.name` = \"constant\"; remove "
            "it");
  EXPECT_EQ(refusal(minimal_and("[optimizer]\nname = \"adam\"\nmomentum = 0.9\n")),
            "x.toml:8: `optimizer.momentum` has no effect with `optimizer.name` = \"adam\"; that "
            "uses `beta1`, `beta2`, `epsilon`");
}

TEST(Recipe, overriding_a_schedule_drops_what_the_file_says_of_another) {
  const std::string text =
      minimal_and("[schedule]\nname = \"exponential\"\ntime_constant = 500\nfloor = 0.1\n");
  const Recipe recipe = parse_recipe(text, "x.toml", {"schedule.name=constant"});
  EXPECT_EQ(recipe.schedule, ScheduleOptions{});
  EXPECT_NE(refusal(text, {"schedule.name=constant", "schedule.floor=0.2"}).find("no effect"),
            std::string::npos);
}

TEST(Recipe, schedules_must_be_whole) {
  EXPECT_NE(refusal(minimal_and("[schedule]\nname = \"exponential\"\n")).find("time_constant"),
            std::string::npos);
  EXPECT_NE(refusal(minimal_and("[schedule]\nname = \"linear\"\n")).find("needs `schedule.bound"),
            std::string::npos);
  const std::string piecewise = minimal_and("[schedule]\nname = \"piecewise\"\n");
  EXPECT_NE(refusal(piecewise + "boundaries = [10, 20]\nfactors = [1, 0.1]\n").find("needs 3"),
            std::string::npos);
  EXPECT_NE(
      refusal(piecewise + "boundaries = [20, 20]\nfactors = [1, 0.1, 0]\n").find("must increase"),
      std::string::npos);
  EXPECT_EQ(refusal(piecewise + "boundaries = [10, 20]\nfactors = [1, 0.1, 0]\n"), "accepted");
}

TEST(Recipe, sizes_must_fit_the_dataset) {
  EXPECT_NE(refusal(kMinimal, {"data=mnist", "train_examples=100"}).find("that of its files"),
            std::string::npos);
  EXPECT_NE(refusal(kMinimal, {"train_examples=100"}).find("larger than the training set of 100"),
            std::string::npos);
  EXPECT_NE(refusal(kMinimal, {"validation=60000"}).find("at most 59999"), std::string::npos);
}

TEST(Recipe, augmentation_must_fit_the_images) {
  const std::vector<std::string> cifar = {"data=cifar10"};
  EXPECT_EQ(refusal(minimal_and("[augment]\nshift = 40\n"), cifar),
            "x.toml:7: `augment.shift` = 40: the images are 32 x 32 pixels; it must be between 0 "
            "and 31");
  EXPECT_EQ(refusal(minimal_and("[augment]\nshift = 31\npadding = \"reflect\"\n"), cifar),
            "accepted");
  EXPECT_EQ(
      refusal(minimal_and("[augment]\ncutout = 33\nshift = 32\npadding = \"reflect\"\n"), cifar),
      "x.toml:7: `augment.cutout` = 33: the images are 32 x 32 pixels; it must be between 0 "
      "and 32\n"
      "x.toml:8: `augment.shift` = 32: the images are 32 x 32 pixels; it must be between 0 "
      "and 31");
  EXPECT_EQ(refusal(minimal_and("[augment]\nshear = 0.1\n"), {"augment.padding=reflect"}),
            "`augment.padding=reflect`: `augment.padding` = \"reflect\" works "
            "only with shifts by whole pixels and cannot be combined with `augment.shear`; use "
            "\"zero\", or set that to 0");
  EXPECT_EQ(refusal(minimal_and("[augment]\nflip = \"altrnating\"\n")),
            "x.toml:7: `augment.flip` = \"altrnating\" is unknown; known: none, random, "
            "alternating; the nearest is \"alternating\"");
}

TEST(Recipe, normalisation_must_fit_the_channels) {
  const std::string given =
      minimal_and("[normalise]\nname = \"per-channel\"\nmean = [0.5]\ndeviation = [0.2]\n");
  EXPECT_EQ(refusal(given), "accepted");
  EXPECT_EQ(refusal(given, {"data=cifar10"}),
            "x.toml:8: `normalise.mean` has 1 number; the images have 3 channels: give one number "
            "per channel\n"
            "x.toml:9: `normalise.deviation` has 1 number; the images have 3 channels: give one "
            "number per channel");
  EXPECT_EQ(refusal(given, {"normalise.deviation=[0]"}),
            "`normalise.deviation=[0]`: `normalise.deviation` is 0; it must be "
            "above 0 and at most 1");
  EXPECT_EQ(refusal(minimal_and("[normalise]\nname = \"per-channel\"\nmean = [127]\n")),
            "x.toml: `normalise.deviation` has 0 numbers; the images have 1 channel: give one "
            "number per channel\n"
            "x.toml:8: `normalise.mean` is 127; it must be at least 0 and at most 1");
  EXPECT_EQ(refusal(minimal_and("[normalise]\nname = \"per-image\"\nmean = [0.5]\n")),
            "x.toml:8: `normalise.mean` has no effect with `normalise.name` = \"per-image\"; "
            "remove it");
  EXPECT_EQ(parse_recipe(given, "x.toml", {"normalise.name=per-image"}).normalise,
            (NormaliseOptions{"per-image", {}, {}}));
}

TEST(Recipe, an_integer_that_is_one_of_a_few_is_checked) {
  EXPECT_EQ(parse_recipe(kMinimal, "x.toml", {"evaluation.views=6"}).evaluation.views, 6);
  EXPECT_EQ(refusal(minimal_and("[evaluation]\nviews = 3\n")),
            "x.toml:7: `evaluation.views` is 3; known: 1, 2, 6");
}

TEST(Recipe, only_pairs_are_translated) {
  EXPECT_EQ(refusal(minimal_and("[evaluation]\ntranslations = 3\n")),
            "x.toml:7: `evaluation.translations` has no effect with `data.name` = \"glyphs\"; only "
            "pairs of sentences are translated: remove it");
}

TEST(Recipe, names_that_cannot_name_a_folder_are_refused) {
  EXPECT_NE(refusal(kMinimal, {"name=../x"}).find("cannot name a folder"), std::string::npos);
  EXPECT_EQ(refusal(kMinimal, {"name=my-run.2"}), "accepted");
}

TEST(Recipe, unknown_recipe_names_the_nearest_and_all) {
  try {
    find_recipe("mnits");
    FAIL();
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the nearest is \"mnist\""), std::string::npos) << text;
    EXPECT_NE(text.find("glyphs"), std::string::npos) << text;
  }
  EXPECT_THROW(find_recipe("no/such.toml"), UserError);
  EXPECT_THROW(read_recipe("recipes"), UserError);
}

TEST(Recipe, its_document_describes_every_key) {
  std::ifstream file("docs/recipes.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(recipe_keys_markdown()), std::string::npos)
      << "docs/recipes.md must hold these tables:\n"
      << recipe_keys_markdown();
}

TEST(Recipe, warm_up_must_fit_into_the_run) {
  const std::string text =
      minimal_and("[schedule]\nname = \"cosine\"\nunit = \"epoch\"\nwarmup = ");
  EXPECT_EQ(refusal(text + "2\n"), "accepted");
  EXPECT_EQ(
      refusal(text + "3\n").find("x.toml:9: `schedule.warmup` = 3 epochs is longer than the run"),
      0u);
}

TEST(Recipe, a_run_that_is_made_shorter_than_its_warm_up_keeps_the_share_of_it) {
  const std::string rest =
      minimal_and("[schedule]\nname = \"cosine\"\nunit = \"epoch\"\nwarmup = ");
  const auto warmup = [&](const std::string& text, const std::vector<std::string>& overrides) {
    return parse_recipe(text, "x.toml", overrides).schedule.warmup;
  };
  EXPECT_EQ(warmup(rest + "2\n", {"epochs=1"}), 1.0) << "2 of 2 epochs";
  EXPECT_EQ(warmup(rest + "2\n", {"batch=64", "epochs=1"}), 1.0) << "whatever else is set";
  EXPECT_EQ(warmup(rest + "1\n", {"epochs=1"}), 1.0) << "it fits";
  EXPECT_EQ(warmup(rest + "0.5\n", {"epochs=1"}), 0.5) << "it fits";
  EXPECT_THROW(warmup(rest + "2\n", {"epochs=1", "schedule.warmup=2"}), UserError) << "as asked";
  EXPECT_THROW(warmup(rest + "3\n", {"epochs=1"}), UserError) << "the file itself is wrong";
}

TEST(Recipe, decoupled_decay_cannot_be_per_replica) {
  EXPECT_EQ(refusal(minimal_and("[optimizer]\nname = \"adamw\"\ndecay = \"per-replica\"\n")),
            "x.toml:8: `optimizer.decay` = \"per-replica\" is for weight decay that is added to "
            "gradients; that of adamw is not, so use \"once\"");
}

TEST(Recipe, usual_names_of_keys_meet_the_keys) {
  for (const auto& [name, key] : std::vector<std::pair<std::string, std::string>>{
           {"lr", "optimizer.learning_rate"}, {"wd", "optimizer.weight_decay"}, {"bs", "batch"}}) {
    std::string text;
    try {
      read_recipe(find_recipe("mnist"), {name + "=1"});
    } catch (const UserError& error) {
      text = error.what();
    }
    EXPECT_NE(text.find("the nearest known one is `" + key + "`"), std::string::npos) << text;
  }
  // All lead to keys that there are.
  for (const char* name : {"lr", "wd", "bs", "momentum", "optim", "warmup", "size", "clip"}) {
    const std::string key = key_of_usual_name(name);
    EXPECT_TRUE(std::ranges::any_of(recipe_keys(0), [&](const RecipeKey& k) {
      return k.path() == key;
    })) << name;
  }
}

}  // namespace
}  // namespace podium
