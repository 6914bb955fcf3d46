// A task of one's own: examples that are no pictures, a network that reads them by name, and a loss
// and metrics that Podium does not have. It predicts a price that 9 of 10 rows do not exceed.
// run() does the rest: batches, replicas, evaluation, checkpoints and hashes are the same as for
// pictures. Called again, it goes on.
//
//   own_task runs/oscillator
#include <podium/base/numerics/hash.h>
#include <podium/podium.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr float kShare = 0.9f;  // of the rows, whose price is to lie below the prediction

// Rows of a table: three numbers, and the one that is to be predicted from them.
class Table : public podium::Source {
 public:
  explicit Table(std::int64_t rows, std::uint32_t seed) {
    std::uint32_t state = seed;
    const auto draw = [&] {
      state = state * 1664525 + 1013904223;
      return static_cast<float>(state >> 8) / 8388608.0f - 1;
    };
    for (std::int64_t i = 0; i < rows; ++i) {
      const float a = draw(), b = draw(), c = draw();
      features_.insert(features_.end(), {a, b, c});
      prices_.push_back(a * b + 0.5f * c + 0.1f * draw());
    }
  }
  std::vector<podium::Field> fields() const override {
    return {{.name = "features", .shape = podium::Shape{3}, .unit = "row"},
            {.name = "price", .target = true}};
  }
  std::int64_t examples() const override { return static_cast<std::int64_t>(prices_.size()); }
  const std::string& origin() const override { return origin_; }
  void read(std::int64_t index, const podium::ExampleKey*, podium::FieldMemory to) const override {
    for (int i = 0; i < 3; ++i)
      to.at<float>(0)[i] = features_[static_cast<std::size_t>(3 * index + i)];
    *to.at<float>(1) = prices_[static_cast<std::size_t>(index)];
  }
  void require_usable(const std::string&) const override {}
  // Another table gives another text, so that a run goes on with the same rows alone.
  std::string identity(podium::StopToken) const override {
    std::uint64_t hash =
        podium::hash_append(podium::hash_sum(features_), podium::hash_sum(prices_));
    return std::to_string(examples()) + " rows, hash " + podium::hash_text(hash);
  }
  std::int64_t memory_bytes() const override { return 16 * examples(); }

 private:
  std::string origin_ = "drawn";
  std::vector<float> features_, prices_;
};

// A multilayer perceptron. It reads the features by their name and never sees the price.
podium::Outputs perceptron(podium::Network& net, const podium::Inputs& in) {
  podium::Value x = in["features"];
  for (const char* layer : {"hidden1", "hidden2"})
    x = net.relu(net.dense(layer, x, {.units = 32, .bias = true}));
  return {{"prediction", net.dense("out", x, {.units = 1, .bias = true})}};
}

// The pinball loss of a quantile, of each row: kShare * e, or (kShare - 1) * e where e is negative.
podium::Score pinball(podium::Network& net, const podium::Outputs& out, const podium::Inputs& in) {
  const podium::Value predicted =
      podium::reshape(net.graph(), podium::output_of(out, "prediction"), {in.rows()});
  const podium::Value e = podium::sub(net.graph(), in["price"], predicted);
  const podium::Value losses = net.add(net.scale(e, kShare), net.relu(net.scale(e, -1)));
  return {.losses = losses, .predictions = predicted};
}

// The share of the rows whose price lies below its prediction.
double covered(std::span<const float> predictions, std::span<const float> prices) {
  double below = 0;
  for (std::size_t i = 0; i < prices.size(); ++i) below += prices[i] < predictions[i] ? 1 : 0;
  return below / static_cast<double>(prices.size());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    podium::Recipe recipe;
    recipe.name = "oscillator";
    recipe.model = "perceptron";
    recipe.batch = 64;
    recipe.replicas = 4;
    recipe.epochs = 10;
    recipe.optimizer.name = "adam";
    recipe.optimizer.learning_rate = 0.003;

    podium::RunOptions options;
    options.out = argc > 1 ? argv[1] : "runs/oscillator";
    options.data = {std::make_shared<const Table>(8192, 1), std::make_shared<const Table>(1000, 2)};
    if (argc > 2) options.placement.workers = std::atoi(argv[2]);
    const podium::Model model(
        perceptron, pinball,
        {{"pinball", "", false, [](const podium::Sums& sums) -> double { return sums.loss; }},
         {.name = "covered", .unit = "%", .of_predictions = covered}});
    podium::RunObserver observer;
    const podium::RunResult result = podium::run(recipe, model, options, observer);
    std::printf("pinball %.4f, covered %.1f%%, parameters %s, in %s\n", result.evaluation.metric(),
                100 * result.evaluation.metrics.at(1).value,
                podium::hash_text(result.parameter_hash).c_str(), options.out.c_str());
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
