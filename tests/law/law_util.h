// Short runs of the MNIST network on drawn digits, for the tests of the law.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "backend/detached/detached_device.h"
#include "nn/models.h"
#include "train/run/run.h"

namespace podium {

inline Recipe small_recipe(std::int64_t batch, std::int64_t replicas) {
  Recipe recipe = parse_recipe(R"(
model = "mnist"
data = "glyphs"
train_examples = 2048
test_examples = 500
batch = 64
epochs = 2
seed = 11
[optimizer]
name = "adam"
learning_rate = 0.01
[schedule]
name = "exponential"
time_constant = 500
floor = 1e-4
)",
                               "small", {"replicas=1"});
  recipe.batch = batch;
  recipe.replicas = replicas;
  return recipe;
}

inline const RunData& small_data() {
  static const RunData data = load_data(small_recipe(64, 1), "");
  return data;
}

// The backend that the law is tested on: "cpu", or what $PODIUM_LAW_BACKEND names. ctest runs these
// tests again on "detached", whose memory the host cannot read, and on the emulated GPU.
inline const std::string& law_backend() {
  static const std::string name = [] {
    register_detached_backend();
    register_cuda_emulated_backend();
    const char* const gpus = std::getenv("PODIUM_LAW_GPUS");
    if (gpus != nullptr) set_cuda_devices(std::stoi(gpus));
    const char* const stated = std::getenv("PODIUM_LAW_BACKEND");
    return std::string(stated == nullptr ? "cpu" : stated);
  }();
  return name;
}
// Whether it adds BF16 products in the order of AMX.
inline bool computes_amx() { return make_device(law_backend())->bf16().computes(Bf16Order::kAmx); }

inline std::unique_ptr<Trainer> make_trainer(const Recipe& recipe, std::int64_t workers,
                                             int threads = 1,
                                             const std::string& backend = law_backend()) {
  const RunData& data = small_data();
  return std::make_unique<Trainer>(
      recipe, find_model(recipe.model).build, data.train, data.held_out,
      Placement{.workers = workers, .threads = threads, .backend = backend});
}

// The hash of all parameters after each of `steps` steps.
inline std::vector<std::uint64_t> step_hashes(Trainer& trainer, int steps) {
  std::vector<std::uint64_t> hashes;
  for (int i = 0; i < steps; ++i) hashes.push_back(trainer.step({.hash = true}).hash);
  return hashes;
}

}  // namespace podium
