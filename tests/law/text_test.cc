// The law on text: a small GPT on a drawn text has the same hashes under any placement, after a
// stop, and on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cpu/kernels/targets.h"
#include "base/numerics/hash.h"
#include "compile/linear_loss.h"
#include "ops/ops.h"
#include "text_test_util.h"
#include "train/predict/decoder.h"
#include "train/predict/generate.h"
#include "train/run/initial.h"
#include "train/run/published.h"

namespace podium {
namespace {

class TextLaw : public DrawnText {
 protected:
  Recipe recipe(const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(cat(R"(
model = "gpt"
batch = 8
replicas = 4
steps = 200
seed = 5
[network]
layers = 2
heads = 2
width = 16
bias = false
[data]
name = "text"
tokenizer = "chars"
context = 16
path = ")",
                            text_file(), R"("
[optimizer]
name = "adamw"
learning_rate = 1e-2
weight_decay = 0.1
clip_norm = 1.0
)"),
                        "text", overrides);
  }
};

const std::vector<std::string> kLlama = {"model=llama", "network.groups=1", "network.tied=false",
                                         "network.dropout=0.1"};
const std::vector<std::string> kBf16 = {"precision=bf16", "bf16_order=hopper", "network.bias=true",
                                        "network.dropout=0.1"};
const std::vector<std::string> kLlamaBf16 = {"precision=bf16", "bf16_order=hopper", "model=llama",
                                             "network.groups=1", "network.tied=false"};

TEST_F(TextLaw, any_placement_gives_the_same_hashes) {
  for (const auto& overrides : std::vector<std::vector<std::string>>{
           {}, {"network.bias=true", "network.tied=false", "network.dropout=0.1"}, kLlama, kBf16}) {
    const Recipe one = recipe(overrides);
    const auto expected = step_hashes(*trainer(one, 1), 4);
    EXPECT_NE(expected.front(), expected.back());
    EXPECT_EQ(step_hashes(*trainer(one, 2), 4), expected);
    EXPECT_EQ(step_hashes(*trainer(one, 4), 4), expected);
    EXPECT_EQ(step_hashes(*trainer(one, 1, 3), 4), expected);
  }
}

// So many that the cross-entropy is made by rows (compile/linear_loss.h), in more than one turn.
TEST_F(TextLaw, every_backend_gives_the_same_hashes_of_twenty_thousand_words) {
  law_backend();
  constexpr std::int64_t kWords = 20000, kContext = 900;
  static_assert(kWords * kContext > kMostLogits);
  std::string text;
  for (int i = 0; i < kWords; ++i) text += cat("w", i, i % 50 == 49 ? "\n" : " ");
  put_text(text_file(), text + text.substr(0, text.size() / 4));
  const Recipe words =
      recipe({"data.tokenizer=words", cat("data.context=", kContext), "batch=2", "replicas=2",
              "network.layers=1", "network.width=4", "data.held_out=0.1"});
  const auto expected = step_hashes(*trainer(words, 1, 1, "reference"), 1);
  for (const std::int64_t workers : {1, 2})
    EXPECT_EQ(step_hashes(*trainer(words, workers, 1, "cpu"), 1), expected) << workers;
  EXPECT_EQ(step_hashes(*trainer(words, 1, 1, "cuda-emulated"), 1), expected);
}

TEST_F(TextLaw, every_backend_gives_the_same_hashes) {
  law_backend();  // makes the backends that are for tests alone known by name
  for (const auto& overrides :
       std::vector<std::vector<std::string>>{{"network.bias=true", "network.dropout=0.1"},
                                             {"network.gelu_tanh=true"},
                                             kLlama,
                                             kBf16,
                                             kLlamaBf16}) {
    const Recipe one = recipe(overrides);
    const auto expected = step_hashes(*trainer(one, 2, 1, "reference"), 2);
    for (const char* backend : {"detached", "cuda-emulated"})
      EXPECT_EQ(step_hashes(*trainer(one, 2, 1, backend), 2), expected) << backend;
    for (const std::string& target : cpu::vector_targets()) {
      cpu::set_vector_target(target);
      EXPECT_EQ(step_hashes(*trainer(one, 2, 1, "cpu"), 2), expected) << target;
    }
    cpu::set_vector_target(cpu::vector_targets().front());
  }
}

TEST_F(TextLaw, blocks_that_are_computed_again_give_the_same_hashes) {
  for (const auto& overrides :
       std::vector<std::vector<std::string>>{{"network.dropout=0.1"}, kLlama, kBf16}) {
    Recipe one = recipe(overrides);
    const auto expected = step_hashes(*trainer(one, 2), 3);
    one.recompute = "blocks";
    EXPECT_EQ(step_hashes(*trainer(one, 4), 3), expected);
    EXPECT_EQ(step_hashes(*trainer(one, 2, 1, "cuda-emulated"), 3), expected);
  }
}

TEST_F(TextLaw, a_run_that_was_stopped_goes_on_to_the_same_hashes) {
  const Recipe one = recipe();
  const auto whole = trainer(one, 1);
  const auto first = step_hashes(*whole, 3);
  const Checkpoint stopped = whole->checkpoint();
  const auto expected = step_hashes(*whole, 3);
  const auto resumed = trainer(one, 2);
  resumed->restore(stopped);
  EXPECT_EQ(step_hashes(*resumed, 3), expected);
}

TEST_F(TextLaw, the_loss_falls_and_evaluation_counts_every_token_once) {
  Recipe one = recipe();
  const auto some = trainer(one, 2);
  const EvaluationResult before = some->evaluate();
  // As likely as any of the ten characters.
  EXPECT_NEAR(before.sums.loss, 2.3, 0.1);
  step_hashes(*some, 100);
  const EvaluationResult after = some->evaluate();
  EXPECT_LT(after.sums.loss, 1.5);
  EXPECT_EQ(after.sums.items, after.sums.examples * 16);
  ASSERT_EQ(after.metrics.size(), 2u);
  EXPECT_EQ(after.metrics[0].name, "perplexity");
  EXPECT_NEAR(std::log2(after.metrics[0].value), after.metrics[1].value, 1e-5);
  one.evaluation.batch = 3;
  const auto other = trainer(one, 1);
  other->restore(some->checkpoint());
  EXPECT_EQ(other->evaluate().sums.loss, after.sums.loss);
}

TEST_F(TextLaw, an_inspected_step_has_a_row_of_logits_for_each_token) {
  const auto some = trainer(recipe({"network.dropout=0.1"}), 2);
  const InspectedStep step = some->inspect_step(false);
  const auto found = std::ranges::find(step.tensors, "logits", &NamedTensor::name);
  ASSERT_NE(found, step.tensors.end());
  EXPECT_EQ(found->tensor.shape(), (Shape{8 * 16, 10}));
}

std::string generated(const Recipe& recipe, const Checkpoint& checkpoint, const std::string& prompt,
                      const GenerateOptions& options, const std::string& backend) {
  Predictor predictor(recipe, checkpoint, {}, {.workers = 1, .backend = backend});
  std::string text;
  generate(predictor, prompt, options, [&](std::string_view piece) { text += piece; });
  return text;
}

// As nanoGPT has them: without a prefix, matrices [out, in].
std::vector<NamedTensor> of_nanogpt(std::vector<NamedTensor> published) {
  for (NamedTensor& t : published) {
    if (t.name.starts_with("transformer.")) t.name = t.name.substr(12);
    const Shape shape = t.tensor.shape();
    if (!t.name.starts_with("h.") || shape.rank() != 2) continue;
    Tensor x(DType::kF32, Shape{shape[1], shape[0]});
    for (std::int64_t r = 0; r < shape[0]; ++r)
      for (std::int64_t c = 0; c < shape[1]; ++c)
        x.f32()[c * shape[0] + r] = t.tensor.f32()[r * shape[1] + c];
    t.tensor = x;
  }
  return published;
}

// GPT-2's own, as its published file lists them.
TEST_F(TextLaw, a_gpt_leaves_under_its_published_names_and_shapes) {
  const Recipe one = recipe({"network.bias=true", "network.layers=1", "network.tied=false"});
  const auto trained = trainer(one, 1);
  std::vector<std::string> listed;
  for (const NamedTensor& t : to_published("gpt", trained->checkpoint().tensors))
    listed.push_back(t.name + " " + to_string(t.tensor.shape()));
  std::ranges::sort(listed);
  EXPECT_EQ(
      listed,
      (std::vector<std::string>{
          "lm_head.weight [10, 16]", "transformer.h.0.attn.c_attn.bias [48]",
          "transformer.h.0.attn.c_attn.weight [16, 48]", "transformer.h.0.attn.c_proj.bias [16]",
          "transformer.h.0.attn.c_proj.weight [16, 16]", "transformer.h.0.ln_1.bias [16]",
          "transformer.h.0.ln_1.weight [16]", "transformer.h.0.ln_2.bias [16]",
          "transformer.h.0.ln_2.weight [16]", "transformer.h.0.mlp.c_fc.bias [64]",
          "transformer.h.0.mlp.c_fc.weight [16, 64]", "transformer.h.0.mlp.c_proj.bias [16]",
          "transformer.h.0.mlp.c_proj.weight [64, 16]", "transformer.ln_f.bias [16]",
          "transformer.ln_f.weight [16]", "transformer.wpe.weight [16, 16]",
          "transformer.wte.weight [10, 16]"}));
}

TEST_F(TextLaw, a_gpt_begins_with_weights_under_their_published_names) {
  const Recipe one = recipe({"network.bias=true"});
  const auto trained = trainer(one, 2);
  step_hashes(*trained, 3);
  for (const bool inputs_first : {true, false}) {
    const auto path = folder_ / (inputs_first ? "conv1d.safetensors" : "linear.safetensors");
    const auto published = to_published("gpt", trained->checkpoint().tensors);
    write_safetensors(path, inputs_first ? published : of_nanogpt(published));
    Recipe begun = one;
    begun.init.from = path.string();
    const auto other = trainer(begun, 1);
    EXPECT_CONTAINS(take_initial(*other), "tensors of ");
    EXPECT_EQ(hash_text(other->parameter_hash()), hash_text(trained->parameter_hash()))
        << inputs_first;
  }
  // Of another width: both shapes are named.
  Recipe wide = recipe({"network.bias=true", "network.width=32"});
  wide.init.from = (folder_ / "linear.safetensors").string();
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { take_initial(*trainer(wide, 1)); }),
                  "h.0.attn.query.weight [32, 32]: there it is [16, 16]");
}

// Windows computed whole, and tokens whose predecessors' keys and values are kept, up to the end of
// the context and beyond it.
TEST_F(TextLaw, a_token_has_the_same_logits_alone_and_in_its_window) {
  law_backend();
  for (const auto& overrides :
       std::vector<std::vector<std::string>>{{"network.bias=true"}, kLlama, kLlamaBf16}) {
    const Recipe one = recipe(overrides);
    const auto some = trainer(one, 2);
    step_hashes(*some, 5);
    for (const char* backend : {"cpu", "reference", "detached", "cuda-emulated"}) {
      Predictor predictor(one, some->checkpoint(), {}, {.workers = 1, .backend = backend});
      Decoder whole(predictor, false), kept(predictor);
      EXPECT_FALSE(whole.keeps());
      EXPECT_TRUE(kept.keeps()) << one.model;
      std::vector<std::int32_t> tokens = {3, 1};
      for (std::int32_t i = 0; i < 20; ++i) {  // the context is 16
        const auto expected = whole.logits(tokens), logits = kept.logits(tokens);
        EXPECT_TRUE(std::ranges::equal(logits, expected)) << backend << ", token " << tokens.size();
        tokens.push_back(static_cast<std::int32_t>((7 * i + 2) % 10));
      }
      // Another text, of which only the beginning is the same.
      tokens = {3, 1, 4};
      const auto expected = whole.logits(tokens);
      EXPECT_TRUE(std::ranges::equal(kept.logits(tokens), expected)) << backend;
    }
  }
}

// What a network carries from batch to batch begins anew with each window: nothing is kept.
TEST_F(TextLaw, a_network_that_carries_state_computes_windows) {
  const auto forward = [](Network& net, const Inputs& in) -> Outputs {
    Graph& graph = net.graph();
    const std::int64_t vocabulary = in.field("tokens").below, rows = graph.shape(in["tokens"])[0];
    const Value table = net.parameter({.name = "table",
                                       .shape = {vocabulary, 4},
                                       .initialiser = Initialiser::kNormal,
                                       .deviation = 1});
    const Value x = embedding(graph, in["tokens"], table, "x");
    const Value state = net.carried("state", Shape{16 * 4});
    net.carry(state, net.add(state, reshape(graph, x, Shape{rows, 16 * 4})));
    return {{"logits", matmul(graph, x, table, {.transpose_b = true}, "head")}};
  };
  // The fields of the text, and the one parameter.
  Checkpoint checkpoint = trainer(recipe(), 1)->checkpoint();
  checkpoint.tensors.clear();
  Tensor table(DType::kF32, Shape{10, 4});
  for (std::int64_t i = 0; i < table.elements(); ++i)
    table.f32()[i] = static_cast<float>(i % 7) - 3;
  checkpoint.tensors.push_back({"table", std::move(table)});
  Predictor predictor(recipe(), checkpoint, Model(forward), {.workers = 1});
  Decoder decoder(predictor);
  EXPECT_FALSE(decoder.keeps());
  const std::vector<std::int32_t> tokens = {3, 1, 4};
  const auto logits = decoder.logits(tokens);
  const std::vector<float> once(logits.begin(), logits.end());
  EXPECT_EQ(once.size(), 10u);
  EXPECT_TRUE(std::ranges::equal(decoder.logits(tokens), once));
}

TEST_F(TextLaw, generated_text_is_the_same_on_every_backend) {
  const Recipe one = recipe();
  const auto some = trainer(one, 2);
  step_hashes(*some, 60);
  const Checkpoint trained = some->checkpoint();
  const GenerateOptions options{.tokens = 40, .temperature = 0.8, .top_k = 5, .seed = 3};
  const std::string expected = generated(one, trained, "ka", options, "reference");
  EXPECT_EQ(expected.size(), 40u);
  for (const char* backend : {"cpu", "cuda-emulated"})
    EXPECT_EQ(generated(one, trained, "ka", options, backend), expected) << backend;
  GenerateOptions other = options;
  other.seed = 4;
  EXPECT_NE(generated(one, trained, "ka", other, "cpu"), expected);
  // Greedy text needs no seed, and is made of what the text has.
  other.temperature = 0;
  const std::string greedy = generated(one, trained, "ka", other, "cpu");
  other.seed = 9;
  EXPECT_EQ(generated(one, trained, "ka", other, "cpu"), greedy);
  EXPECT_CONTAINS(
      user_error(ExitCode::kData, [&] { generated(one, trained, "kx", options, "cpu"); }),
      "the prompt: line 1 (byte 1) has the character \"x\"");
  EXPECT_CONTAINS(
      user_error(ExitCode::kUsage, [&] { generated(one, trained, "", options, "cpu"); }),
      "the prompt is empty");
}

}  // namespace
}  // namespace podium
