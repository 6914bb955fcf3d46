// The law on recurrent layers over a drawn text, whose state goes on from step to step: the same
// hashes under any placement, on every backend, and after a stop.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/kernels/targets.h"
#include "ranks_test_util.h"
#include "text_test_util.h"
#include "train/predict/decoder.h"

namespace podium {
namespace {

class RecurrentLaw : public DrawnText, public testing::WithParamInterface<const char*> {
 protected:
  Recipe recipe(const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(cat("model = \"", GetParam(), R"("
batch = 8
replicas = 4
steps = 300
seed = 5
[network]
layers = 2
width = 24
dropout = 0.1
initial_range = 0.2
[data]
name = "text"
tokenizer = "chars"
context = 9
order = "streams"
path = ")",
                            text_file(), R"("
[optimizer]
name = "sgd"
learning_rate = 4
clip_norm = 0.5
)"),
                        "text", overrides);
  }
};

constexpr int kRecurrentSteps = 4;

TEST_P(RecurrentLaw, any_placement_gives_the_same_hashes) {
  const Recipe one = recipe();
  const auto expected = step_hashes(*trainer(one, 1), kRecurrentSteps);
  EXPECT_NE(expected.front(), expected.back());
  for (const std::int64_t workers : {2, 3, 4})
    EXPECT_EQ(step_hashes(*trainer(one, workers), kRecurrentSteps), expected) << workers;
  EXPECT_EQ(step_hashes(*trainer(one, 1, 3), kRecurrentSteps), expected);
}

TEST_P(RecurrentLaw, every_backend_and_vector_target_gives_the_same_hashes) {
  law_backend();  // makes the backends that are for tests alone known by name
  const Recipe bf16 = recipe({"precision=bf16", "bf16_order=hopper"});
  EXPECT_EQ(step_hashes(*trainer(bf16, 2, 1, "cpu"), 2),
            step_hashes(*trainer(bf16, 2, 1, "reference"), 2));
  const Recipe one = recipe({"network.tied=false"});
  const auto expected = step_hashes(*trainer(one, 2, 1, "reference"), 3);
  for (const char* backend : {"detached", "cuda-emulated"})
    EXPECT_EQ(step_hashes(*trainer(one, 2, 1, backend), 3), expected) << backend;
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    EXPECT_EQ(step_hashes(*trainer(one, 2, 1, "cpu"), 3), expected) << target;
  }
  cpu::set_vector_target(cpu::vector_targets().front());
}

TEST_P(RecurrentLaw, ranks_give_the_same_hashes) {
  const Recipe one = recipe();
  const auto expected = step_hashes(*trainer(one, 1), kRecurrentSteps);
  const RunData data = load_data(one, "");
  for (const std::vector<int>& workers : {std::vector<int>{1, 1}, {1, 2, 1}})
    on_ranks_of(
        workers, {.backend = law_backend()},
        [&](const Placement& placement) {
          return std::make_unique<Trainer>(one, model_of(one), data.train, data.held_out,
                                           placement);
        },
        [&](Trainer& here, int rank) {
          EXPECT_EQ(step_hashes(here, kRecurrentSteps), expected) << rank;
        });
}

TEST_P(RecurrentLaw, layers_that_are_computed_again_give_the_same_hashes) {
  Recipe one = recipe();
  const auto expected = step_hashes(*trainer(one, 2), 3);
  one.recompute = "blocks";
  EXPECT_EQ(step_hashes(*trainer(one, 4), 3), expected);
  EXPECT_EQ(step_hashes(*trainer(one, 2, 1, "cuda-emulated"), 3), expected);
}

TEST_P(RecurrentLaw, state_goes_on_after_a_stop_and_matters) {
  const Recipe one = recipe();
  const auto whole = trainer(one, 1);
  step_hashes(*whole, 3);
  const Checkpoint stopped = whole->checkpoint();
  const auto expected = step_hashes(*whole, 3);
  const auto resumed = trainer(one, 4);
  resumed->restore(stopped);
  EXPECT_EQ(step_hashes(*resumed, 3), expected);
  // Without the state, the next step is another one.
  Checkpoint forgot = stopped;
  forgot.metadata.erase("carried_hash");
  for (NamedTensor& t : forgot.tensors)
    if (t.name.starts_with(kCarriedPrefix)) std::ranges::fill(t.tensor.f32(), 0.0f);
  const auto anew = trainer(one, 1);
  anew->restore(forgot);
  EXPECT_NE(step_hashes(*anew, 3), expected);
}

TEST_P(RecurrentLaw, the_loss_falls_and_evaluation_reads_its_streams) {
  Recipe one = recipe({"network.dropout=0"});
  const auto some = trainer(one, 2);
  const EvaluationResult before = some->evaluate();
  EXPECT_NEAR(before.sums.loss, 2.3, 0.1);  // as likely as any of the ten characters
  step_hashes(*some, 200);
  const EvaluationResult after = some->evaluate();
  EXPECT_LT(after.sums.loss, 1.6);
  const auto evaluated = [&](std::int64_t workers, std::int64_t batch, std::int64_t streams) {
    Recipe other = one;
    other.evaluation.batch = batch;
    other.evaluation.streams = streams;
    const auto there = trainer(other, workers);
    there->restore(some->checkpoint());
    return there->evaluate().sums.loss;
  };
  EXPECT_EQ(evaluated(1, 3, 1), after.sums.loss);
  EXPECT_EQ(evaluated(4, 2, 5), evaluated(1, 7, 5));
  EXPECT_NE(evaluated(1, 0, 5), after.sums.loss);  // four more windows begin from zeros
}

// The state that a decoder keeps is that of all tokens, and a window's where they fill one.
TEST_P(RecurrentLaw, a_token_has_the_same_logits_alone_and_in_its_window) {
  const Recipe one = recipe();
  const auto trained = trainer(one, 2);
  step_hashes(*trained, 20);
  const Checkpoint checkpoint = trained->checkpoint();
  const std::vector<std::int32_t> text = {3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 7, 2, 0, 4};
  const auto read = [&](const std::string& backend, bool keeps) {
    Predictor predictor(one, checkpoint, {}, {.workers = 1, .backend = backend});
    Decoder decoder(predictor, keeps);
    EXPECT_EQ(decoder.keeps(), keeps);
    std::vector<std::vector<float>> all;
    const std::size_t most = keeps ? text.size() : static_cast<std::size_t>(decoder.context());
    for (std::size_t n = 1; n <= most; ++n) {
      const auto logits = decoder.logits(std::span(text).first(n));
      all.emplace_back(logits.begin(), logits.end());
    }
    // Another text begins from zeros.
    const auto anew = decoder.logits(std::span(text).subspan(2, 1));
    const auto again = std::vector<float>(anew.begin(), anew.end());
    const auto first = decoder.logits(std::span(text).first(1));
    EXPECT_TRUE(std::ranges::equal(first, all[0]));
    EXPECT_NE(again, all[0]);
    return all;
  };
  const auto expected = read("reference", true);
  for (const char* backend : {"cpu", "detached", "cuda-emulated"})
    EXPECT_EQ(read(backend, true), expected) << backend;
  const auto windows = read("cpu", false);
  ASSERT_EQ(windows.size(), 9u);
  for (std::size_t n = 0; n < windows.size(); ++n) EXPECT_EQ(windows[n], expected[n]) << n;
}

TEST_P(RecurrentLaw, windows_that_are_shuffled_are_refused_with_the_key_that_helps) {
  try {
    trainer(recipe({"data.order=shuffled"}), 1);
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("`data.order` = \"streams\""), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RecurrentLaw, testing::Values("lstm", "gru"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace podium
