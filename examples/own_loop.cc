// A training loop of one's own: gradients in hand, clipped by their norm; two optimizers; a line
// each epoch; and an end when the held-out accuracy no longer rises.
//
// What is done with gradients sees whole tensors, in one order, for every placement: the result
// depends on the recipe and on this file, not on the number of workers.
#include <podium/base/numerics/hash.h>
#include <podium/podium.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

// The recipe key optimizer.clip_norm does the same.
void clip(std::span<const podium::TensorSpan> gradients, double most) {
  double squares = 0;
  for (const podium::TensorSpan& gradient : gradients)
    for (const float g : gradient.values) squares += double{g} * double{g};
  const double norm = std::sqrt(squares);
  if (norm <= most) return;
  for (const podium::TensorSpan& gradient : gradients)
    for (float& g : gradient.values) g = static_cast<float>(g * (most / norm));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    podium::Recipe recipe;
    recipe.name = "own-loop";
    recipe.model = "mnist";
    recipe.data = "glyphs";
    recipe.train_examples = 6000;
    recipe.validation = 1000;  // held out of the training examples, and evaluated
    recipe.batch = 125;
    recipe.replicas = 5;
    recipe.epochs = argc > 1 ? std::atoi(argv[1]) : 20;
    recipe.optimizer.name = "adam";
    recipe.optimizer.learning_rate = 0.003;
    podium::OptimizerGroup filters{.parameters = {"conv*.weight"}};
    filters.optimizer.name = "sgd";
    filters.optimizer.learning_rate = 0.1;
    filters.optimizer.momentum = 0.9f;
    recipe.optimizer_groups = {filters};

    const podium::RunData data = podium::load_data(recipe, "");
    podium::Trainer trainer(recipe, podium::mnist_model, data.train, data.held_out,
                            {.workers = argc > 2 ? std::atoi(argv[2]) : 2});
    double best = 0;
    int epochs_since_best = 0;
    while (trainer.steps_done() < trainer.total_steps() && epochs_since_best < 2) {
      trainer.compute_gradients();
      clip(trainer.gradients(), 1.0);
      const podium::StepResult step = trainer.apply_update();
      if (step.step % trainer.steps_per_epoch() != 0) continue;
      const double accuracy = trainer.evaluate().metric();
      epochs_since_best = accuracy > best ? 0 : epochs_since_best + 1;
      best = std::max(best, accuracy);
      std::printf("epoch %lld  loss %.4f  accuracy %.2f%%\n",
                  static_cast<long long>(step.step / trainer.steps_per_epoch()), step.sums.loss,
                  100 * accuracy);
    }
    std::printf("best accuracy %.2f%% after %lld steps, parameters %s\n", 100 * best,
                static_cast<long long>(trainer.steps_done()),
                podium::hash_text(trainer.parameter_hash()).c_str());
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
