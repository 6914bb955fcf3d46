// What the networks that predict the next token of a text share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nn/model.h"
#include "nn/network_options.h"

namespace podium::language {

// Of all matrices at the start (GPT-2).
inline constexpr float kDeviation = 0.02f;
// Of a matrix that ends on the sum of `layers` blocks, two for each: divided by the root of how
// many there are, so that the sum keeps its size.
float last_deviation(std::int64_t layers);

// A parameter `name`.weight, which decays.
Value matrix(Network& net, const std::string& name, const Shape& shape, float deviation);
// x [N, C] -> [N, units].
Value dense(Network& net, const std::string& name, Value x, std::int64_t units, float deviation,
            bool bias);

// x [N, C] with its layer norm; without `bias` no shift is learned.
Value norm(Network& net, const std::string& name, Value x, bool bias);

// Throws UserError(kUsage) if there are no such layers, or the heads do not divide the width.
void require_size(const std::string& model, const NetworkOptions& options);

// The model of an output "logits" [B T, vocabulary]: each token has a loss, the target is the token
// after it. Of data with the field "weights", i32 [T], a token counts as often as that says.
Model predicting(Model::Forward forward);

// (network, tokens i32 [B, T], vocabulary) -> logits [B T, vocabulary].
using Logits = std::function<Value(Network&, Value, std::int64_t)>;
// The model of these logits, by predicting().
Model model(const std::string& name, const Logits& logits);

}  // namespace podium::language
