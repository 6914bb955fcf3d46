// A multilayer perceptron: dense layers of one width with ReLU, then one for the target.
#include <string>

#include "nn/models.h"
#include "ops/ops.h"

namespace podium {

Model perceptron_model(const NetworkOptions& options) {
  return [options](Network& net, const Inputs& in) -> Outputs {
    const Field& features = in.field("features");
    PODIUM_REQUIRE(features.dtype == DType::kF32 && features.shape.rank() == 1, ExitCode::kUsage,
                   "a perceptron reads features f32 [count], got ", to_text(in.fields()));
    const Field& target = in.target();
    Value x = in["features"];
    for (std::int64_t i = 0; i < options.layers; ++i) {
      const std::string name = cat("layer", i + 1);
      x = net.relu(net.dense(name, x, {.units = options.width, .bias = true}));
      x = net.dropout(name + ".drop", x, options.dropout);
    }
    const bool of_classes = target.dtype == DType::kI32;
    const Value y = net.dense("out", x, {.units = of_classes ? target.below : 1, .bias = true});
    return {{of_classes ? "logits" : "prediction", y}};
  };
}

}  // namespace podium
