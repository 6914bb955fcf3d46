// The law on tables, sentences, pairs and sounds: a network on drawn files has the same hashes
// under any placement, after a stop, and on every backend, whether it predicts numbers or classes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cpu/kernels/targets.h"
#include "base/scratch_test_util.h"
#include "data/sounds/sound_test_util.h"
#include "law_util.h"
#include "train/predict/predictor.h"

namespace podium {
namespace {

// Numbers below others, the same ones on every machine.
class Draws {
 public:
  explicit Draws(std::uint32_t state) : state_(state) {}
  std::uint32_t operator()(std::uint32_t below) {
    state_ = state_ * 1664525 + 1013904223;
    return (state_ >> 16) % below;
  }

 private:
  std::uint32_t state_;
};

// price = 3 size + 20 if red, and a kind for each third of the sizes.
std::string drawn_table() {
  std::string text = "size,weight,colour,price,kind\n";
  Draws draw(7);
  for (int i = 0; i < 400; ++i) {
    const std::uint32_t size = draw(90), red = draw(2);
    text += cat(size, ",", draw(1000), red == 1 ? ",red," : ",blue,", 3 * size + 20 * red, ",",
                size < 30   ? "small"
                : size < 60 ? "middle"
                            : "large",
                "\n");
  }
  return text;
}

// Good or bad, by two of three to nine words; "not" turns the word after it.
std::string drawn_sentences() {
  std::string text = "text,label\n";
  Draws draw(3);
  for (int i = 0; i < 400; ++i) {
    const bool good = draw(2) == 1, turned = draw(2) == 1;
    const std::uint32_t before = draw(4), after = 1 + draw(4);
    for (std::uint32_t word = 0; word < before; ++word) text += cat("w", draw(40), " ");
    text += cat(turned ? "not " : "so ", good != turned ? "fine" : "dull");
    for (std::uint32_t word = 0; word < after; ++word) text += cat(" w", draw(40));
    text += good ? ",good\n" : ",bad\n";
  }
  return text;
}

// One to six digits, and these in words.
std::string drawn_pairs() {
  constexpr const char* kWords[] = {"null", "eins", "zwei", "drei", "vier"};
  std::string text = "text,label\n";
  Draws draw(9);
  for (int i = 0; i < 400; ++i) {
    std::string digits, words;
    for (std::uint32_t n = 1 + draw(6); n > 0; --n) {
      const std::uint32_t digit = draw(5);
      digits += cat(digits.empty() ? "" : " ", digit);
      words += cat(words.empty() ? "" : " ", kWords[digit]);
    }
    text += cat(digits, ",", words, "\n");
  }
  return text;
}

class RowsLaw : public testing::TestWithParam<const char*> {
 protected:
  RowsLaw() {
    put_text(folder_ / "rows.csv", drawn_table());
    put_text(folder_ / "sentences.csv", drawn_sentences());
    put_text(folder_ / "pairs.csv", drawn_pairs());
    put_tones(folder_ / "tones", 200, 8000);
  }

  // A run on the drawn file `path`: what is in [network] besides the dropout, and in [data] besides
  // the path and the share.
  Recipe recipe_of(const std::string& model, const std::string& network, const std::string& data,
                   const std::string& path, const std::string& more, double rate = 1e-2) const {
    return parse_recipe(
        cat("model = \"", model, "\"\nbatch = 32\nreplicas = 8\nepochs = 20\nseed = 5\n",
            "[network]\ndropout = 0.1\n", network, "[data]\nname = \"", data,
            "\"\nheld_out = 0.25\npath = \"", (folder_ / path).string(), "\"\n", more,
            "[optimizer]\nname = \"adamw\"\nlearning_rate = ", rate, "\n"),
        data);
  }

  Recipe recipe() const {
    const std::string target = GetParam();
    if (target == "label")
      return recipe_of("text-cnn", "width = 20\nhidden = 10\n", "sentences", "sentences.csv",
                       "tokenizer = \"words\"\ncontext = 12\n");
    if (target == "translation")
      return recipe_of("transformer", "layers = 1\nheads = 4\nwidth = 32\n", "pairs", "pairs.csv",
                       "tokenizer = \"words\"\ncontext = 7\nbuckets = [3, 5]\n", 5e-3);
    if (target == "sound")
      return recipe_of("bilstm", "layers = 2\nwidth = 6\n", "sounds", "tones",
                       "rate = 4000\nmels = 9\ncontext = 16\n");
    return recipe_of("perceptron", "layers = 2\nwidth = 20\n", "table", "rows.csv",
                     cat("target = \"", target, "\"\nignore = [\"",
                         target == "price" ? "kind" : "price", "\"]\n"));
  }
  std::unique_ptr<Trainer> trainer(std::int64_t workers, int threads = 1,
                                   const std::string& backend = law_backend(),
                                   int input_threads = 0) const {
    const Recipe of = recipe();
    const RunData data = load_data(of, "");
    return std::make_unique<Trainer>(of, model_of(of), data.train, data.held_out,
                                     Placement{.workers = workers,
                                               .threads = threads,
                                               .input_threads = input_threads,
                                               .backend = backend});
  }

  TestFolder folder_;
};

TEST_P(RowsLaw, any_placement_gives_the_same_hashes) {
  const auto expected = step_hashes(*trainer(1), 4);
  EXPECT_NE(expected.front(), expected.back());
  for (const std::int64_t workers : {2, 3, 8})
    EXPECT_EQ(step_hashes(*trainer(workers), 4), expected) << workers;
  EXPECT_EQ(step_hashes(*trainer(1, 3), 4), expected);
  EXPECT_EQ(step_hashes(*trainer(2, 1, law_backend(), 2), 4), expected);
}

TEST_P(RowsLaw, a_replica_and_an_inspected_step_are_those_of_the_run) {
  const auto one = trainer(1), other = trainer(3);
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(one->replica_hashes({0, 3, 7}), other->replica_hashes({0, 3, 7})) << step;
    EXPECT_EQ(other->inspect_step(false).result.sums.loss, one->step().sums.loss) << step;
  }
  EXPECT_EQ(step_hashes(*other, 1), step_hashes(*one, 1));
}

TEST_P(RowsLaw, every_backend_gives_the_same_hashes_and_evaluation) {
  law_backend();  // makes the backends that are for tests alone known by name
  const auto reference = trainer(2, 1, "reference");
  const auto expected = step_hashes(*reference, 3);
  const EvaluationResult evaluated = reference->evaluate();
  const auto expect_same = [&](const std::string& backend) {
    const auto other = trainer(2, 1, backend);
    EXPECT_EQ(step_hashes(*other, 3), expected) << backend;
    const EvaluationResult result = other->evaluate();
    EXPECT_EQ(result.sums.loss, evaluated.sums.loss) << backend;
    EXPECT_EQ(result.metric(), evaluated.metric()) << backend;
  };
  for (const char* backend : {"detached", "cuda-emulated"}) expect_same(backend);
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    expect_same("cpu");
  }
}

TEST_P(RowsLaw, a_run_that_was_stopped_goes_on_to_the_same_hashes) {
  const auto whole = step_hashes(*trainer(2), 6);
  const auto first = trainer(1);
  step_hashes(*first, 3);
  const auto second = trainer(3);
  second->restore(first->checkpoint());
  EXPECT_EQ(step_hashes(*second, 3), (std::vector<std::uint64_t>{whole.begin() + 3, whole.end()}));
}

TEST_P(RowsLaw, the_metric_is_that_of_the_rows_held_out_in_their_own_unit) {
  const auto trained = trainer(2);
  step_hashes(*trained, 240);
  const EvaluationResult result = trained->evaluate();
  EXPECT_EQ(result.sums.examples, 100);
  if (std::string(GetParam()) == "translation") {  // of the tokens that count
    EXPECT_LT(result.sums.weight, 700);
    EXPECT_LT(result.metric(), 2.0);
    return;
  }
  EXPECT_GT(result.metric(), 0.9);
  if (std::string(GetParam()) != "price") return;
  // The loss is that of the normalised target, the errors are in the target's unit.
  ASSERT_EQ(result.metrics.size(), 3U);
  EXPECT_EQ(result.metrics[2].name, "mean_squared_error");
  const Field target = *target_of(trained->evaluation_set().fields());
  const double unit = target.deviation.at(0) * target.deviation.at(0);
  EXPECT_NEAR(result.metrics[2].value / unit, static_cast<double>(result.sums.loss), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Each, RowsLaw,
                         testing::Values("price", "kind", "label", "translation", "sound"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace podium
