// The models that a recipe can name. To add one, see docs/adding-a-model.md.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "nn/model.h"
#include "nn/network_options.h"

namespace podium {

// A model that a recipe can name.
struct ModelInfo {
  std::string name;
  std::string description;  // one line
  Model build;
  // Instead, of a model that has more than one size: the model of this one.
  std::function<Model(const NetworkOptions&)> sized = {};
};

// The library's models, then the registered ones. Addresses of entries do not change.
const std::deque<ModelInfo>& all_models();
// Registers a model under its name for recipes and for the functions that read a run. Throws
// UserError if the name is taken or has other characters than letters, digits, '-', '_' and '.'. Do
// not call it while other threads look up names.
void register_model(ModelInfo model);
// Throws UserError, which lists the known models, if there is none of this name.
const ModelInfo& find_model(const std::string& name);

// The model; of the size of `options` where it has more than one. Throws UserError(kUsage) if it
// has none of that size.
Model model_of(const ModelInfo& info, const NetworkOptions& options);

// tokens i32 [B, T] -> logits [B T, vocabulary] of the next one (nn/models/gpt.cc). Throws
// UserError(kUsage) if the heads do not divide the width.
Model gpt_model(const NetworkOptions& options);
// The same with rotary positions, RMS norms, gated dense layers and shared keys
// (nn/models/llama.cc). Throws UserError(kUsage) if the sizes do not fit each other.
Model llama_model(const NetworkOptions& options);
// The same by stacked LSTMs or gated recurrent units, whose state goes on from batch to batch
// (nn/models/stacked_recurrent.cc). Throw UserError(kUsage) if there is no layer.
Model lstm_model(const NetworkOptions& options);
Model gru_model(const NetworkOptions& options);
// source and tokens i32 [B, T], source_length i32 [B] -> logits [B T, vocabulary] of what follows
// each token (nn/models/transformer.cc). Throws UserError(kUsage) as gpt_model() does.
Model transformer_model(const NetworkOptions& options);
// tokens i32 [B, T] -> logits [B, classes], by convolutions over words (nn/models/text_cnn.cc).
// Throws UserError(kUsage) if the width is less than 1.
Model text_cnn_model(const NetworkOptions& options);
// tokens i32 [B, T] or frames f32 [B, T, F] -> logits [B, classes], by such layers in both
// directions (nn/models/bidirectional.cc). Throw UserError(kUsage) as lstm_model() does.
Model bilstm_model(const NetworkOptions& options);
Model bigru_model(const NetworkOptions& options);
// features f32 [B, F] -> logits [B, classes] or a prediction [B, 1], as the target is
// (nn/models/perceptron.cc).
Model perceptron_model(const NetworkOptions& options);
// images [N, C, H, W] -> logits [N, classes]; each in nn/models/.
Value mnist_model(Network& net, Value images, std::int64_t classes);
Value davidnet_model(Network& net, Value images, std::int64_t classes);
Value resnet32_model(Network& net, Value images, std::int64_t classes);
Value sprint_model(Network& net, Value images, std::int64_t classes);
Value resnet18_model(Network& net, Value images, std::int64_t classes);
Value resnet34_model(Network& net, Value images, std::int64_t classes);
Value resnet50_model(Network& net, Value images, std::int64_t classes);
// The same, but the scale of the last batch norm of each block starts at 0.
Value resnet18_zero_model(Network& net, Value images, std::int64_t classes);
Value resnet34_zero_model(Network& net, Value images, std::int64_t classes);
Value resnet50_zero_model(Network& net, Value images, std::int64_t classes);

}  // namespace podium
