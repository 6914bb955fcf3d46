// A network of one's own, with a layer and an operation of one's own (squeeze.h), trained on drawn
// digits and evaluated:
//
//   cmake -B build -S examples -DCMAKE_PREFIX_PATH=<where Podium is installed>
//   cmake --build build && build/custom_model 3
//
// The number is of epochs. The result depends on the recipe alone: any number of workers gives the
// same hash.
#include <podium/base/numerics/hash.h>
#include <podium/podium.h>

#include <cstdio>
#include <cstdlib>

#include "squeeze.h"

int main(int argc, char** argv) {
  try {
    // What training takes for granted of an operation: its reference, its gradient, its shapes.
    for (const std::string& finding : podium::check_operation(squeeze::gate_op))
      throw podium::UserError(finding);

    podium::Recipe recipe;
    recipe.name = recipe.model = "custom";
    recipe.data = "glyphs";
    recipe.train_examples = 12000;
    recipe.test_examples = 2000;
    recipe.batch = 128;
    recipe.replicas = 4;
    recipe.epochs = argc > 1 ? std::atoi(argv[1]) : 3;
    recipe.seed = 7;
    recipe.optimizer.name = "adam";
    recipe.optimizer.learning_rate = 0.003;

    const podium::RunData data = podium::load_data(recipe, "");
    podium::Trainer trainer(recipe, squeeze::model, data.train, data.held_out, {.workers = 2});
    std::fputs(podium::describe(trainer).c_str(), stdout);

    while (trainer.steps_done() < trainer.total_steps()) {
      const podium::StepResult step = trainer.step();  // throws where training diverges
      if (step.step % trainer.steps_per_epoch() != 0) continue;
      const podium::EvaluationResult result = trainer.evaluate();
      std::printf("step %4lld  loss %.4f  test accuracy %.2f%%\n",
                  static_cast<long long>(step.step), step.sums.loss, 100 * result.metric());
    }
    std::printf("parameters %s\n", podium::hash_text(trainer.parameter_hash()).c_str());
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
