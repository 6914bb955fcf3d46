// The law for what a model carries from step to step (docs/numerics.md): it is of the replica, and
// no placement may show in it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "base/scratch_test_util.h"
#include "carried_test_util.h"
#include "ranks_test_util.h"
#include "train/run/rank_plan.h"

namespace podium {
namespace {

constexpr int kCarriedSteps = 13;  // into the second epoch

// The same model, of which each step begins anew.
Outputs forgetful_model(Network& net, const Inputs& in) {
  Graph& graph = net.graph();
  const Value before = net.carried("sum", {Signal::kWidth});
  const Value sum = add(graph, net.scale(before, 0.5f), in["signal"], "sum");
  net.carry(before, net.scale(sum, 0));
  const Value last = net.carried("last", {}, DType::kI32);
  net.carry(last, last);
  const Value table =
      net.parameter({.name = "marks.weight", .shape = {Signal::kMarks, 1}, .decays = true});
  const Value of_sum = net.dense("out", sum, {.units = 1, .bias = true});
  return {{"prediction", add(graph, of_sum, embedding(graph, last, table, "marks"), "prediction")}};
}

// What one row of a stream carries, computed plainly.
struct PlainRow {
  std::array<float, Signal::kWidth> sum = {};
  std::int32_t last = 0;
  // Reads an example, and returns what a network of these parameters predicts.
  double read(const Signal& signal, std::int64_t example, const std::vector<double>& weights,
              double bias, const std::vector<double>& marks) {
    double prediction = bias + marks[static_cast<std::size_t>(last)];
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float leaked = 0.5f * sum[i];
      sum[i] = leaked + signal.signal(example, static_cast<std::int64_t>(i));
      prediction += weights[i] * static_cast<double>(sum[i]);
    }
    last = Signal::mark(example);
    return prediction;
  }
};

const std::vector<double> kWeights = {1, -0.5, 0.25}, kMarkValues = {0.5, -1, 2, 0.125};
constexpr double kBias = 0.25;

// Gives the network these values.
void set_parameters(Trainer& trainer) {
  for (const TensorSpan& parameter : trainer.parameters()) {
    const std::map<std::string, std::vector<double>> values = {
        {"out.weight", kWeights}, {"out.bias", {kBias}}, {"marks.weight", kMarkValues}};
    for (std::size_t i = 0; i < parameter.values.size(); ++i)
      parameter.values[i] = static_cast<float>(values.at(parameter.name)[i]);
  }
}

TEST(Carried, values_go_on_with_their_rows_and_begin_anew_with_the_streams) {
  const Recipe recipe = leaky_recipe();
  const auto trainer = leaky_trainer(recipe, {.workers = 3});
  set_parameters(*trainer);
  const Signal signal(kSignal, 1);
  const std::int64_t steps = trainer->steps_per_epoch();
  ASSERT_EQ(steps, 10);
  std::vector<PlainRow> rows(static_cast<std::size_t>(recipe.batch));
  for (std::int64_t step = 0; step < kCarriedSteps; ++step) {
    if (step % steps == 0) rows.assign(rows.size(), {});
    double loss = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const std::int64_t example = static_cast<std::int64_t>(k) * steps + step % steps;
      const double error =
          rows[k].read(signal, example, kWeights, kBias, kMarkValues) - signal.answer(example);
      loss += error * error;
    }
    const StepResult result = trainer->step({.update_parameters = false});
    EXPECT_NEAR(result.sums.loss, loss / static_cast<double>(recipe.batch), 1e-5) << step;
    // To the bit, as [replicas, rows, ...].
    const Checkpoint checkpoint = trainer->checkpoint();
    const Tensor *sum = checkpoint.find("carried.sum"), *last = checkpoint.find("carried.last");
    ASSERT_NE(sum, nullptr);
    ASSERT_NE(last, nullptr);
    EXPECT_EQ(sum->type(), (TensorType{DType::kF32, {8, 4, Signal::kWidth}}));
    EXPECT_EQ(last->type(), (TensorType{DType::kI32, {8, 4}}));
    for (std::size_t k = 0; k < rows.size(); ++k) {
      for (std::size_t i = 0; i < Signal::kWidth; ++i)
        EXPECT_EQ(sum->f32()[k * Signal::kWidth + i], rows[k].sum[i]) << step << ", row " << k;
      EXPECT_EQ(last->i32()[k], rows[k].last) << step << ", row " << k;
    }
  }
}

TEST(Carried, values_change_what_is_learned) {
  const auto carried = step_hashes(*leaky_trainer(), 2),
             forgotten = step_hashes(
                 *leaky_trainer(leaky_recipe(), {.workers = 2}, law_backend(), forgetful_model), 2);
  EXPECT_NE(carried[1], forgotten[1]);
}

TEST(Carried, state_gives_equal_hashes_for_any_workers_threads_and_backend) {
  for (const float clip_norm : {0.0f, 0.05f}) {
    Recipe recipe = leaky_recipe();
    recipe.clip_norm = clip_norm;
    const auto expected =
        step_hashes(*leaky_trainer(recipe, {.workers = 1}, "reference"), kCarriedSteps);
    for (const Placement& placement :
         std::vector<Placement>{{.workers = 1, .threads = 3},
                                {.workers = 2},
                                {.workers = 3, .threads = 2, .input_threads = 2},
                                {.workers = 8}})
      EXPECT_EQ(step_hashes(*leaky_trainer(recipe, placement), kCarriedSteps), expected)
          << placement.workers << " workers";
  }
}

// Calls work(trainer, rank) on each rank, on a thread of its own. workers[r] is rank r's.
void leaky_on_ranks(const Recipe& recipe, const std::vector<int>& workers,
                    const std::function<void(Trainer&, int)>& work) {
  on_ranks_of(
      workers, {.bucket_bytes = 256},
      [&](const Placement& placement) { return leaky_trainer(recipe, placement); }, work);
}

const std::vector<std::vector<int>> kLeakyLayouts = {{1, 1}, {2, 1}, {2, 2, 2}};

TEST(Carried, state_gives_equal_hashes_on_any_ranks) {
  const Recipe recipe = leaky_recipe();
  const auto alone = leaky_trainer(recipe);
  const auto expected = step_hashes(*alone, kCarriedSteps);
  const std::uint64_t state = alone->state_hash();
  EXPECT_EQ(state, expected.back());
  EXPECT_NE(state, alone->parameter_hash());
  for (const std::vector<int>& workers : kLeakyLayouts)
    leaky_on_ranks(recipe, workers, [&](Trainer& trainer, int rank) {
      EXPECT_EQ(step_hashes(trainer, kCarriedSteps), expected) << "rank " << rank;
      EXPECT_EQ(trainer.state_hash(), state);
    });
}

// Checkpoints of one step are equal, whatever placement made them.
void expect_equal_checkpoints(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  EXPECT_EQ(a.metadata.at("carried_hash"), b.metadata.at("carried_hash"));
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor &one = a.tensors[i].tensor, &other = b.tensors[i].tensor;
    ASSERT_EQ(one.type(), other.type()) << a.tensors[i].name;
    EXPECT_EQ(std::memcmp(one.data(), other.data(), static_cast<std::size_t>(one.type().bytes())),
              0)
        << a.tensors[i].name;
  }
}

TEST(Carried, state_moves_with_its_replica_to_other_workers_and_ranks) {
  const Recipe recipe = leaky_recipe();
  const auto alone = leaky_trainer(recipe);
  const auto expected = step_hashes(*alone, kCarriedSteps);
  // An odd step, an even one, and the end of an epoch.
  for (const int done : {3, 6, 10}) {
    const auto rest = std::vector<std::uint64_t>(expected.begin() + done, expected.end());
    const auto first = leaky_trainer(recipe, {.workers = 3});
    step_hashes(*first, done);
    Checkpoint checkpoint = first->checkpoint();
    for (const std::vector<int>& workers : kLeakyLayouts) {
      Checkpoint of_ranks;
      leaky_on_ranks(recipe, workers, [&](Trainer& trainer, int rank) {
        if (rank == 0) trainer.restore(checkpoint);  // as a run does
        trainer.take_state_of_first_rank();
        EXPECT_EQ(trainer.steps_done(), done);
        const Checkpoint own = trainer.checkpoint();
        EXPECT_EQ(step_hashes(trainer, kCarriedSteps - done), rest) << "rank " << rank;
        if (rank == static_cast<int>(workers.size()) - 1) of_ranks = own;
      });
      expect_equal_checkpoints(of_ranks, checkpoint);
    }
    const auto back = leaky_trainer(recipe, {.workers = 8});
    step_hashes(*back, 1);  // has other state
    back->restore(checkpoint);
    EXPECT_EQ(step_hashes(*back, kCarriedSteps - done), rest);
    expect_equal_checkpoints(back->checkpoint(), alone->checkpoint());
  }
}

TEST(Carried, state_resumes_to_the_same_hashes_on_another_placement) {
  const TestFolder folder;
  const Recipe recipe = leaky_recipe();
  const RunData data{std::make_shared<const Signal>(kSignal, 1),
                     std::make_shared<const Signal>(kHeldOut, 2)};
  const auto train = [&](const char* name, std::int64_t workers, std::int64_t stop,
                         const std::string& backend) {
    RunOptions options;
    options.out = folder / name;
    options.data = data;
    options.stop_steps = stop;
    options.placement = {.workers = workers, .backend = backend};
    RunObserver nobody;
    return run(recipe, leaky_model, options, nobody);
  };
  const RunResult expected = train("whole", 1, 0, law_backend());
  train("parts", 2, 7, law_backend());
  train("parts", 8, 14, "reference");
  const RunResult found = train("parts", 3, 0, law_backend());
  EXPECT_EQ(found.parameter_hash, expected.parameter_hash);
  EXPECT_EQ(found.evaluation.sums.loss, expected.evaluation.sums.loss);
  // Both have hashed their state.
  const auto lines = [&](const char* name) { return read_text(folder / name / "hashes.jsonl"); };
  ASSERT_TRUE(lines("whole"));
  EXPECT_EQ(lines("parts"), lines("whole"));
}

TEST(Carried, state_is_what_it_was_after_a_step_that_was_refused_or_made_twice) {
  const auto expected = step_hashes(*leaky_trainer(), kCarriedSteps);
  const auto trainer = leaky_trainer();
  for (std::size_t i = 0; i < kCarriedSteps; ++i) {
    const Checkpoint before = trainer->checkpoint();
    if (i % 3 == 0) {
      // Not a number, and the right values again.
      std::vector<std::vector<float>> values;
      for (const TensorSpan& parameter : trainer->parameters()) {
        values.emplace_back(parameter.values.begin(), parameter.values.end());
        std::ranges::fill(parameter.values, std::numeric_limits<float>::quiet_NaN());
      }
      EXPECT_FALSE(trainer->step({.throw_on_divergence = false}).non_finite.empty());
      for (std::size_t k = 0; k < values.size(); ++k)
        std::ranges::copy(values[k], trainer->parameters()[k].values.begin());
      expect_equal_checkpoints(trainer->checkpoint(), before);
    }
    if (i % 2 == 0) {
      trainer->compute_gradients();
      expect_equal_checkpoints(trainer->checkpoint(), before);
      trainer->compute_gradients();
      EXPECT_EQ(trainer->apply_update({.hash = true}).hash, expected[i]) << i;
    } else {
      EXPECT_EQ(trainer->step({.hash = true}).hash, expected[i]) << i;
    }
  }
}

TEST(Carried, state_is_in_what_an_inspected_step_shows) {
  const auto expected = step_hashes(*leaky_trainer(), 6);
  const auto trainer = leaky_trainer();
  step_hashes(*trainer, 4);
  const InspectedStep step = trainer->inspect_step();
  const Tensor *before = find_tensor(step.tensors, "before/carried.sum"),
               *after = find_tensor(step.tensors, "after/carried.sum"),
               *signal = find_tensor(step.tensors, "signal"),
               *prediction = find_tensor(step.tensors, "prediction"),
               *answer = find_tensor(step.tensors, "answer"),
               *loss = find_tensor(step.tensors, "loss");
  for (const Tensor* tensor : {before, after, signal, prediction, answer, loss})
    ASSERT_NE(tensor, nullptr);
  for (std::int64_t i = 0; i < after->elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(after->f32()[at], 0.5f * before->f32()[at] + signal->f32()[at]);
  }
  // It ran the replicas from the same state.
  double sum = 0;
  for (std::size_t i = 0; i < 32; ++i)
    sum += std::pow(
        static_cast<double>(prediction->f32()[i]) - static_cast<double>(answer->f32()[i]), 2);
  EXPECT_NEAR(sum / 32, step.result.sums.loss, 1e-6);
  EXPECT_EQ(step_hashes(*trainer, 1)[0], expected[5]);
}

// The held-out set as so many streams, one row each.
double plain_evaluation(std::int64_t streams) {
  const Signal signal(kHeldOut, 2);
  double loss = 0;
  for (std::int64_t stream = 0; stream < streams; ++stream) {
    PlainRow row;
    for (std::int64_t example = kHeldOut * stream / streams;
         example < kHeldOut * (stream + 1) / streams; ++example) {
      const double error =
          row.read(signal, example, kWeights, kBias, kMarkValues) - signal.answer(example);
      loss += error * error;
    }
  }
  return loss / static_cast<double>(kHeldOut);
}

TEST(Carried, state_of_an_evaluation_follows_its_streams_and_disturbs_no_training) {
  for (const std::int64_t streams : {1, 3, 8, 70}) {
    Recipe recipe = leaky_recipe();
    recipe.evaluation.streams = streams;
    const auto plain = leaky_trainer(recipe);
    set_parameters(*plain);
    const EvaluationResult expected = plain->evaluate();
    EXPECT_NEAR(expected.sums.loss, plain_evaluation(streams), 1e-5) << streams;
    EXPECT_EQ(expected.sums.examples, kHeldOut);
    if (streams != 1) {
      EXPECT_GT(std::abs(plain_evaluation(streams) - plain_evaluation(1)), 1e-3);
    }
    for (const std::int64_t batch : {0, 1, 2, 5}) {
      recipe.evaluation.batch = batch;
      const auto trainer = leaky_trainer(recipe, {.workers = batch == 0 ? 8 : 3});
      step_hashes(*trainer, 4);
      set_parameters(*trainer);
      const EvaluationResult found = trainer->evaluate();
      EXPECT_EQ(found.sums.loss, expected.sums.loss) << streams << " streams, batch " << batch;
      EXPECT_EQ(found.metric(), expected.metric());
    }
    leaky_on_ranks(recipe, {2, 1, 1}, [&](Trainer& trainer, int) {
      set_parameters(trainer);
      EXPECT_EQ(trainer.evaluate().sums.loss, expected.sums.loss);
    });
  }
  const auto expected = step_hashes(*leaky_trainer(), kCarriedSteps);
  const auto trainer = leaky_trainer();
  for (std::size_t i = 0; i < kCarriedSteps; ++i) {
    trainer->evaluate();
    EXPECT_EQ(step_hashes(*trainer, 1)[0], expected[i]) << i;
  }
}

TEST(Carried, state_is_in_the_plan_of_memory) {
  const Recipe recipe = leaky_recipe();
  const auto trainer = leaky_trainer(recipe, {.workers = 3});
  const MemoryUse use = trainer->memory_use();
  // Of a replica 48 bytes of sums and 16 of marks, each at a multiple of 64; two memories of 8
  // replicas, and zeros.
  EXPECT_EQ(use.carried, 128 * (2 * 8 + 1));
  const DataShape data = shape_of(Signal(kSignal, 1), Signal(kHeldOut, 2));
  const RankPlan plan =
      plan_rank(recipe, leaky_model, data, {.workers = 3, .backend = law_backend()}, {3});
  EXPECT_EQ(plan.memory(), use);
}

std::string carried_refusal(ExitCode code, const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

// The leaky sum with something else in it.
std::string refusal_of_model(const std::function<void(Network&, const Inputs&, Value)>& more) {
  const Model model = [&](Network& net, const Inputs& in) -> Outputs {
    more(net, in, in["signal"]);
    return {{"prediction", net.dense("out", in["signal"], {.units = 1})}};
  };
  return carried_refusal(ExitCode::kUsage, [&] { leaky_trainer(leaky_recipe(), {}, "", model); });
}

TEST(Carried, values_that_a_model_gives_wrongly_are_refused) {
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal_of_model([](Network& net, const Inputs&, Value) {
           net.carried("h", {3});
           net.carried("h", {3});
         }),
         "[\"h\"] the model has two carried values of this name");
  expect(refusal_of_model(
             [](Network& net, const Inputs&, Value x) { net.carry(net.carried("h", {2}), x); }),
         "[\"h\"] its next value is f32[4, 3], but it is f32[4, 2]; give carried() the shape of "
         "one row");
  expect(refusal_of_model([](Network& net, const Inputs&, Value x) {
           net.carry(net.carried("h", {3}, DType::kI32), x);
         }),
         "but it is i32[4, 3]");
  expect(refusal_of_model([](Network& net, const Inputs&, Value x) {
           const Value h = net.carried("h", {3});
           net.carry(h, x);
           net.carry(h, x);
         }),
         "carry() gave it a next value before");
  expect(refusal_of_model([](Network& net, const Inputs&, Value) { net.carried("h", {3}); }),
         "[\"h\"] is a carried value without a next one; give it one with Network::carry()");
  expect(refusal_of_model([](Network& net, const Inputs&, Value x) { net.carry(x, x); }),
         "carry() of a value that carried() did not return");
  expect(refusal_of_model([](Network& net, const Inputs&, Value) { net.carried("", {3}); }),
         "has no name");
  expect(refusal_of_model([](Network& net, const Inputs&, Value) { net.carried("h", {0}); }),
         "each extent must be at least 1");
  expect(refusal_of_model([](Network& net, const Inputs&, Value) {
           net.parameter({.name = "carried.h", .shape = {3}});
         }),
         "are those of carried values");
  expect(refusal_of_model([](Network& net, const Inputs&, Value x) {
           if (net.mode() == Mode::kTrain) net.carry(net.carried("h", {3}), x);
         }),
         "does not carry the same values in evaluation as in training (there it carries \"h\")");
}

TEST(Carried, state_needs_data_that_go_on_and_streams_need_state) {
  const auto text = carried_refusal(ExitCode::kUsage, [] {
    Trainer(leaky_recipe(), leaky_model,
            std::make_shared<const Signal>(kSignal, 1, VisitOrder::kShuffled),
            std::make_shared<const Signal>(kHeldOut, 2), {.workers = 1});
  });
  EXPECT_EQ(text,
            "model leaky carries \"sum\", \"last\" from step to step, and the training set's rows "
            "do not go on where those of the step before ended; give it a set that is visited as "
            "streams: text with `data.order` = \"streams\", or a source whose order() is "
            "VisitOrder::kStreams");
  Recipe recipe = leaky_recipe();
  recipe.evaluation.streams = 71;
  EXPECT_EQ(carried_refusal(ExitCode::kUsage, [&] { leaky_trainer(recipe); }),
            "`evaluation.streams` = 71, but the held-out set has 70 examples; use at most as many "
            "streams");
  recipe.evaluation.streams = 2;
  EXPECT_EQ(carried_refusal(
                ExitCode::kUsage,
                [&] {
                  leaky_trainer(recipe, {}, "", [](Network& net, const Inputs& in) -> Outputs {
                    return {{"prediction", net.dense("out", in["signal"], {.units = 1})}};
                  });
                }),
            "`evaluation.streams` = 2, but model leaky carries nothing from step to step; remove "
            "it");
}

TEST(Carried, state_of_a_checkpoint_that_does_not_fit_is_refused_and_changes_nothing) {
  const auto trainer = leaky_trainer();
  step_hashes(*trainer, 3);
  const std::uint64_t hash = trainer->state_hash();
  const auto refused = [&](const std::function<void(Checkpoint&, NamedTensor & sum)>& change) {
    Checkpoint checkpoint = trainer->checkpoint();
    change(checkpoint, *std::ranges::find(checkpoint.tensors, "carried.sum", &NamedTensor::name));
    return carried_refusal(ExitCode::kData, [&] { trainer->restore(checkpoint); });
  };
  EXPECT_EQ(refused([](Checkpoint&, NamedTensor& sum) { sum.name = "other"; }),
            "the checkpoint of step 3 has no tensor \"carried.sum\"; it is of another recipe: use "
            "another --out folder, or --fresh");
  EXPECT_EQ(refused([](Checkpoint&, NamedTensor& sum) {
              sum.tensor = Tensor(TensorType{DType::kF32, {4, 8, Signal::kWidth}});
            }),
            "the checkpoint of step 3 has \"carried.sum\" as f32[4, 8, 3], this recipe's model "
            "needs [8, 4, 3]; it is of another recipe: use another --out folder, or --fresh");
  const std::string text = refused([](Checkpoint&, NamedTensor& sum) { sum.tensor.f32()[5] += 1; });
  EXPECT_NE(text.find("the carried values of the checkpoint of step 3 have the hash "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("they were changed after it was written"), std::string::npos) << text;
  EXPECT_EQ(trainer->state_hash(), hash);
}

}  // namespace
}  // namespace podium
