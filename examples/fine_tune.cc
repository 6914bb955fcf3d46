// Fine-tuning: the network of a run, frozen, under a new head for other classes.
//
//   podium train glyphs epochs=1 --out runs/glyphs
//   fine_tune runs/glyphs runs/odd-or-even
#include <podium/podium.h>

#include <cstdio>

namespace {

// Digits, told apart by whether they are odd.
std::shared_ptr<const podium::ImageSet> odd_or_even(podium::Split split, std::int64_t count) {
  podium::ImageSet set = podium::load_dataset(
      "glyphs", split, {.seed = 5, .train_examples = count, .test_examples = count});
  for (std::int32_t& label : set.labels) label %= 2;
  set.classes = 2;
  return std::make_shared<const podium::ImageSet>(std::move(set));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: fine_tune RUN NEW_RUN\n", stderr);
    return 2;
  }
  try {
    podium::Recipe recipe;
    recipe.name = "odd-or-even";
    recipe.model = "mnist";
    recipe.batch = 100;
    recipe.replicas = 4;
    recipe.epochs = 3;
    recipe.optimizer.name = "adam";
    recipe.optimizer.learning_rate = 0.01;
    recipe.optimizer_groups = {{.parameters = {"conv*", "bn*", "fc1.*"}, .frozen = true}};
    recipe.init.from = argv[1];
    recipe.init.fresh = {"fc2.*"};  // the head; all else is of the run, by equal name

    podium::RunOptions options;
    options.out = argv[2];
    options.data = {odd_or_even(podium::Split::kTrain, 2000),
                    odd_or_even(podium::Split::kTest, 1000)};
    podium::RunObserver nobody;
    const podium::RunResult result = podium::run(recipe, podium::mnist_model, options, nobody);
    std::printf("accuracy %.2f%% after %lld steps of the head alone\n",
                100 * result.evaluation.metric(), static_cast<long long>(result.steps));
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
