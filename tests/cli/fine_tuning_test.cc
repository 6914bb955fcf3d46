// Runs that start from another's values, and the checkpoints that such work asks for.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/scratch_test_util.h"
#include "files/safetensors.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class FineTuning : public CommandLine {
 protected:
  void SetUp() override { ASSERT_EQ(podium(train_small("base")).code, 0); }

  SafetensorsFile state(const std::string& run, const std::string& step = "step-00000016") const {
    return read_safetensors(path(run) / "checkpoints" / step / "state.safetensors");
  }
  std::vector<std::string> from_base(const std::string& out,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = train_small(out, {"--init", "base"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

bool equal(const SafetensorsFile& a, const SafetensorsFile& b, const std::string& name) {
  const Tensor *x = a.find(name), *y = b.find(name);
  return x != nullptr && y != nullptr && std::ranges::equal(x->f32(), y->f32());
}

TEST_F(FineTuning, starts_from_the_values_of_a_run) {
  ASSERT_EQ(podium(from_base("a", {"--steps", "3"})).code, 0);
  // Before its first step, and so that the run goes on where "base" is gone.
  const SafetensorsFile start = state("a", "step-00000000"), base = state("base");
  for (const NamedTensor& t : start.tensors) {
    const bool optimizer = t.name.starts_with("optimizer/");
    EXPECT_EQ(equal(start, base, t.name), !optimizer) << t.name;
  }
  EXPECT_NE(read("a/resolved.txt").find("init          21 tensors of base, step 16, hash "),
            std::string::npos)
      << read("a/resolved.txt");
  std::filesystem::remove_all(path("base"));
  EXPECT_EQ(podium(from_base("a")).code, 0);
  // A run that is not there yet needs it.
  expect_refusal(podium(from_base("b")), 3, {"init.from = \"base\"", "no such file or folder"});
  // Its resolved recipe says what it started from.
  EXPECT_NE(read("a/recipe.toml").find("\n[init]\nfrom = \"base\"\nhash = \""), std::string::npos);
}

TEST_F(FineTuning, of_the_head_alone_leaves_the_rest_as_it_was_under_any_placement) {
  const std::vector<std::string> head = {"--init-fresh", "fc2.*",
                                         R"(optimizer.group.1.parameters=["conv*", "bn*", "fc1*"])",
                                         "optimizer.group.1.frozen=true"};
  const auto train = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = from_base(out, head);
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(podium(words).code, 0);
  };
  train("one", {"--workers", "1"});
  train("three", {"--workers", "3", "--threads", "2"});
  EXPECT_EQ(read("one/hashes.jsonl"), read("three/hashes.jsonl"));
  const SafetensorsFile base = state("base"), tuned = state("one");
  for (const NamedTensor& t : tuned.tensors) {
    if (t.name.starts_with("optimizer/"))
      EXPECT_TRUE(t.name.starts_with("optimizer/fc2.")) << t.name;
    else
      EXPECT_EQ(equal(base, tuned, t.name), t.name != "fc2.weight") << t.name;
  }
  // The new head began as that of a run from the start.
  EXPECT_TRUE(equal(state("one", "step-00000000"), state("base"), "fc1.weight"));
  EXPECT_FALSE(equal(state("one", "step-00000000"), state("base"), "fc2.weight"));
  EXPECT_NE(read("one/resolved.txt").find("drawn anew: fc2.weight"), std::string::npos);
  EXPECT_NE(read("one/resolved.txt").find("frozen        12 tensors"), std::string::npos)
      << read("one/resolved.txt");
}

TEST_F(FineTuning, takes_a_safetensors_file_whose_names_are_mapped) {
  SafetensorsFile file = state("base");
  std::erase_if(file.tensors,
                [](const NamedTensor& t) { return t.name.starts_with("optimizer/"); });
  const SafetensorsFile base = file;
  for (NamedTensor& t : file.tensors)
    t.name = t.name.starts_with("fc2.") ? "classifier" + t.name.substr(3) : "body." + t.name;
  file.tensors.push_back({"body.bn1.num_batches_tracked", Tensor(DType::kF32, Shape{1})});
  file.tensors.push_back({"other", Tensor(DType::kF32, Shape{2})});
  write_safetensors(path("model.safetensors"), file.tensors);
  const std::vector<std::string> words =
      train_small("a", {"--init", "model.safetensors", "--steps", "1", "--init-map",
                        "*.num_batches_tracked=", "--init-map", "body.*=*", "--init-map",
                        "classifier.*=fc2.*"});
  const Outcome outcome = podium(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const NamedTensor& t : base.tensors)
    EXPECT_TRUE(equal(base, state("a", "step-00000000"), t.name)) << t.name;
  EXPECT_NE(read("a/resolved.txt").find("; not used: other [2]\n"), std::string::npos)
      << read("a/resolved.txt");
}

TEST_F(FineTuning, what_does_not_fit_is_listed) {
  SafetensorsFile file = state("base");
  for (NamedTensor& t : file.tensors) {
    if (t.name == "conv1.weight") t.name = "first.weight";
    if (t.name == "fc2.weight") t.tensor = Tensor(DType::kF32, Shape{7, 200});
  }
  write_safetensors(path("model.safetensors"), file.tensors);
  const auto init = [&](const std::vector<std::string>& more) {
    return podium(train_small("a", more));
  };
  expect_refusal(init({"--init", "model.safetensors"}), 3,
                 {"does not fit model \"mnist\"", "\n  conv1.weight [6, 1, 3, 3]: missing",
                  "\n  fc2.weight [10, 200]: there it is [7, 200]",
                  "It also has:\n  first.weight [6, 1, 3, 3]", "--init-map", "--init-fresh"});
  const std::vector<std::string> mended = {"--init",          "model.safetensors", "--init-map",
                                           "first.*=conv1.*", "--init-fresh",      "fc2.*"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), mended.begin(), mended.end());
    return init(more);
  };
  expect_refusal(with({"--init-map", "last.*=x.*"}), 2, {"\"last.*=x.*\" renames no tensor"});
  expect_refusal(with({"--init-fresh", "head.*"}), 2, {"\"head.*\" matches no parameter"});
  expect_refusal(with({"init.hash=00"}), 3, {"the recipe states 00"});
  EXPECT_EQ(with({"--steps", "1"}).code, 0);
  file.tensors.front().tensor.f32()[0] = std::numeric_limits<float>::quiet_NaN();
  const std::string name = file.tensors.front().name;
  write_safetensors(path("model.safetensors"), file.tensors);
  expect_refusal(podium(train_small("b", {"--init", "model.safetensors", "--init-map",
                                          "first.*=conv1.*", "--init-fresh", "fc2.*"})),
                 3, {"is not finite"});
}

// Accuracies by step, as metrics.jsonl has them.
std::vector<std::pair<std::int64_t, std::int64_t>> evaluations(const std::string& metrics) {
  std::vector<std::pair<std::int64_t, std::int64_t>> list;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("test_correct")) list.emplace_back(json["step"], json["test_correct"]);
  }
  return list;
}

TEST_F(FineTuning, the_best_checkpoint_is_kept_and_evaluated_and_predicts) {
  const std::vector<std::string> words = train_small(
      "a",
      {"run.keep_best=true", "run.checkpoints_kept=1", "epochs=5", "optimizer.learning_rate=0.05"});
  ASSERT_EQ(podium(words).code, 0);
  const auto all = evaluations(read("a/metrics.jsonl"));
  ASSERT_EQ(all.size(), 5u);
  const auto best = std::ranges::max_element(all, {}, [](const auto& e) { return e.second; });
  const auto result = [&](const std::string& step) {
    const Outcome outcome = podium({"eval", "a", "--json", "--step", step});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  };
  EXPECT_EQ(result("best")["steps"], best->first);
  EXPECT_EQ(result("best")["correct"], best->second);
  EXPECT_EQ(result("40")["correct"], all.back().second);
  expect_refusal(podium({"eval", "a", "--step", "16"}), 2,
                 {"--step 16", "keeps no such checkpoint", "it keeps best, 40"});
  expect_refusal(podium({"eval", "base", "--step", "best"}), 2, {"run.keep_best = true"});
  // A run that is done keeps it.
  ASSERT_EQ(podium(words).code, 0);
  EXPECT_EQ(result("best")["steps"], best->first);
}

TEST_F(FineTuning, a_run_that_goes_on_knows_its_best) {
  const std::vector<std::string> recipe = {"run.keep_best=true", "epochs=4"};
  ASSERT_EQ(podium(train_small("whole", recipe)).code, 0);
  std::vector<std::string> first = recipe;
  first.insert(first.end(), {"--epochs", "2"});
  ASSERT_EQ(podium(train_small("parts", first)).code, 0);
  ASSERT_EQ(podium(train_small("parts", recipe)).code, 0);
  EXPECT_EQ(read("parts/checkpoints/best/checkpoint.json"),
            read("whole/checkpoints/best/checkpoint.json"));
}

class RecipeFinetune : public CommandLine {
 protected:
  void SetUp() override {
    const std::filesystem::path corpus =
        std::filesystem::path(PODIUM_SOURCE) / "src/data/corpus/picture";
    for (int i = 0; i < 20; ++i)
      write("photos/" + std::string(i % 2 == 0 ? "cats/" : "dogs/") + std::to_string(i) + ".jpg",
            file_text(corpus / (i % 2 == 0 ? "colour-420.jpg" : "colour-444.jpg")));
  }
  // A recipe on these with a smaller network and smaller pictures.
  Outcome train(const std::string& recipe, const std::string& out,
                const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",        recipe,           "data.path=photos",
                                      "data.size=32", "model=resnet18", "batch=8",
                                      "replicas=2",   "--out",          out};
    words.insert(words.end(), more.begin(), more.end());
    return podium(words);
  }
};

TEST_F(RecipeFinetune, needs_weights_and_says_how_to_name_them) {
  expect_refusal(train("finetune", "tuned", {}), 3,
                 {"init.from = \"resnet50.safetensors\": no such file or folder", "--init"});
  EXPECT_FALSE(std::filesystem::exists(path("tuned")));
}

TEST_F(RecipeFinetune, keeps_the_first_layers_and_trains_a_new_head) {
  const Outcome base = train("pictures", "base", {"--steps", "2"});
  ASSERT_EQ(base.code, 0) << base.err;
  const std::filesystem::path weights = path("base") / "checkpoints/step-00000002";
  // As another program may have written them: without the optimizer's state, of another head.
  SafetensorsFile file = read_safetensors(weights / "state.safetensors");
  std::erase_if(file.tensors, [](const NamedTensor& t) {
    return t.name.starts_with("optimizer/") || t.name == "fc.bias";
  });
  for (NamedTensor& t : file.tensors)
    if (t.name == "fc.weight") t.tensor = Tensor(DType::kF32, Shape{1000, 512});
  write_safetensors(path("weights.safetensors"), file.tensors);

  const Outcome tuned =
      train("finetune", "tuned", {"--init", "weights.safetensors", "--steps", "2"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const SafetensorsFile start =
      read_safetensors(path("tuned") / "checkpoints/step-00000000/state.safetensors");
  const SafetensorsFile end =
      read_safetensors(path("tuned") / "checkpoints/step-00000002/state.safetensors");
  for (const NamedTensor& t : file.tensors) {
    const bool frozen = t.name.starts_with("conv1.") || t.name.starts_with("bn1.") ||
                        t.name.starts_with("layer1.") || t.name.starts_with("layer2.");
    const bool head = t.name.starts_with("fc.");
    EXPECT_EQ(equal(start, file, t.name), !head) << t.name;
    EXPECT_EQ(equal(end, start, t.name), frozen) << t.name;
  }
  EXPECT_NE(read("tuned/resolved.txt").find("drawn anew: fc.weight, fc.bias"), std::string::npos)
      << read("tuned/resolved.txt");
}

}  // namespace
}  // namespace podium::test
