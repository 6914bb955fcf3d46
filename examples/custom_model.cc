// A network of one's own, trained on drawn digits and evaluated, in one file:
//
//   cmake -B build -S examples -DCMAKE_PREFIX_PATH=<where Podium is installed>
//   cmake --build build && build/custom_model 3
//
// The number is of epochs. The result depends on the recipe alone: any number of workers gives the
// same hash.
#include <podium/base/hash.h>
#include <podium/podium.h>

#include <cstdio>
#include <cstdlib>

namespace {

podium::Value my_model(podium::Network& net, podium::Value x, std::int64_t classes) {
  x = net.relu(
      net.batch_norm("bn1", net.conv2d("conv1", x, {.channels = 8, .kernel = 5, .stride = 2})));
  x = net.relu(
      net.batch_norm("bn2", net.conv2d("conv2", x, {.channels = 16, .kernel = 3, .stride = 2})));
  x = net.relu(net.dense("fc1", net.flatten(x), {.units = 64, .bias = true}));
  return net.dense("fc2", net.dropout("dropout", x, 0.2f), {.units = classes, .bias = true});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    podium::Recipe recipe;
    recipe.name = "custom";
    recipe.model = "custom";
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
    podium::Trainer trainer(recipe, my_model, data.train, data.held_out, {.workers = 2});
    std::fputs(podium::describe(trainer).c_str(), stdout);

    while (trainer.steps_done() < trainer.total_steps()) {
      const podium::StepResult step = trainer.step();
      if (step.step % trainer.steps_per_epoch() != 0) continue;
      const podium::EvaluationResult result = trainer.evaluate();
      std::printf("step %4lld  loss %.4f  test accuracy %.2f%%\n",
                  static_cast<long long>(step.step), step.loss, 100 * result.accuracy());
    }
    std::printf("parameters %s\n", podium::hash_text(trainer.parameter_hash()).c_str());
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
