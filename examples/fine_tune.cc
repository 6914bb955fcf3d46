// Fine-tuning: the parameters of a run, frozen, under a new head for other classes.
//
//   podium train glyphs epochs=1 --out runs/glyphs
//   fine_tune runs/glyphs
#include <podium/podium.h>

#include <algorithm>
#include <cstdio>

namespace {

// Digits, told apart by whether they are odd.
std::shared_ptr<const podium::ImageSet> odd_or_even(podium::Split split, std::int64_t count) {
  podium::ImageSet set = podium::load_dataset(
      "glyphs", split, {.seed = 5, .train_examples = count, .test_examples = count});
  for (std::uint8_t& label : set.labels) label %= 2;
  set.classes = 2;
  return std::make_shared<const podium::ImageSet>(std::move(set));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: fine_tune RUN\n", stderr);
    return 2;
  }
  try {
    const auto trained = podium::load_latest(
        argv[1], [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
    if (!trained) throw podium::UserError(podium::cat(argv[1], " has no checkpoint"));

    podium::Recipe recipe;
    recipe.name = "odd-or-even";
    recipe.model = "mnist";
    recipe.batch = 100;
    recipe.replicas = 4;
    recipe.epochs = 3;
    recipe.optimizer.name = "adam";
    recipe.optimizer.learning_rate = 0.01;
    recipe.optimizer_groups = {{.parameters = {"conv*", "bn*", "fc1.*"}, .frozen = true}};

    podium::Trainer trainer(recipe, podium::mnist_model, odd_or_even(podium::Split::kTrain, 2000),
                            odd_or_even(podium::Split::kTest, 1000), {.workers = 2});
    // A checkpoint of the new run, in which all but the head and the optimizer's state is the old
    // run's.
    podium::Checkpoint start = trainer.checkpoint();
    int taken = 0;
    for (podium::NamedTensor& tensor : start.tensors) {
      const podium::Tensor* old = trained->find(tensor.name);
      if (tensor.name.starts_with("fc2.") || tensor.name.starts_with(podium::kOptimizerPrefix) ||
          old == nullptr)
        continue;
      tensor.tensor = *old;
      ++taken;
    }
    start.metadata.erase("parameter_hash");  // of the parameters that were there
    trainer.restore(start);
    std::printf("%d tensors taken; accuracy before %.2f%%\n", taken,
                100 * trainer.evaluate().accuracy());
    while (trainer.steps_done() < trainer.total_steps()) trainer.step();
    std::printf("accuracy after %.2f%%\n", 100 * trainer.evaluate().accuracy());
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
