// Data of one's own: images and labels in memory, handed to run(), which writes a run's folder with
// checkpoints, hashes and curves. Called again, it goes on with the run, if the data are the same.
//
//   own_data runs/quarters
#include <podium/base/numerics/hash.h>
#include <podium/podium.h>

#include <cstdio>

namespace {

constexpr std::int64_t kSide = 28;

// Noise in which one quarter of the image is brighter: the label says which.
std::shared_ptr<const podium::ImageSet> quarters(std::int64_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  std::uint32_t state = seed;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t label = n % 4;
    labels.push_back(static_cast<std::int32_t>(label));
    for (std::int64_t y = 0; y < kSide; ++y)
      for (std::int64_t x = 0; x < kSide; ++x) {
        state = state * 1664525 + 1013904223;
        const bool inside = y / (kSide / 2) == label / 2 && x / (kSide / 2) == label % 2;
        pixels.push_back(static_cast<std::uint8_t>((state >> 25) + (inside ? 60 : 0)));
      }
  }
  // Throws UserError, which names the example, where a buffer is short or a label out of range.
  return std::make_shared<const podium::ImageSet>(podium::make_image_set(
      pixels, labels, {.count = count, .height = kSide, .width = kSide, .classes = 4}));
}

// What a program wants to know of its run.
class EachEpoch : public podium::RunObserver {
 public:
  void evaluated(const podium::Trainer& trainer, const podium::EvaluationResult& result) override {
    std::printf("step %lld  accuracy %.2f%%\n", static_cast<long long>(trainer.steps_done()),
                100 * result.metric());
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    podium::Recipe recipe;
    recipe.name = "quarters";
    recipe.model = "mnist";
    recipe.batch = 64;
    recipe.replicas = 4;
    recipe.epochs = 2;
    recipe.optimizer.name = "adam";
    recipe.optimizer.learning_rate = 0.003;

    podium::RunOptions options;
    options.out = argc > 1 ? argv[1] : "runs/quarters";
    options.data = {quarters(2048, 1), quarters(512, 2)};
    EachEpoch observer;
    const podium::RunResult result = podium::run(recipe, podium::mnist_model, options, observer);
    std::printf("accuracy %.2f%%, parameters %s, in %s\n", 100 * result.evaluation.metric(),
                podium::hash_text(result.parameter_hash).c_str(), options.out.c_str());
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
