#include "nn/models.h"

#include <algorithm>

#include "base/plain_name.h"

namespace podium {
namespace {

std::deque<ModelInfo>& models() {
  static std::deque<ModelInfo> list = {
      {"mnist", "three convolutions and two dense layers for 28x28 images", mnist_model},
      {"davidnet", "ResNet-9 for 32x32 images (Page's DavidNet)", davidnet_model},
      {"resnet32", "ResNet-32 for 32x32 images, activations before convolutions", resnet32_model},
      {"sprint", "whitening, six convolutions and a dense layer (airbench94)", sprint_model},
      {"resnet18", "ResNet-18 for photographs, named as torchvision's", resnet18_model},
      {"resnet34", "ResNet-34 for photographs, named as torchvision's", resnet34_model},
      {"resnet50", "ResNet-50 (v1.5) for photographs, named as torchvision's", resnet50_model},
      {"resnet18-zero", "ResNet-18 whose blocks start as the identity", resnet18_zero_model},
      {"resnet34-zero", "ResNet-34 whose blocks start as the identity", resnet34_zero_model},
      {"resnet50-zero", "ResNet-50 whose blocks start as the identity", resnet50_zero_model},
      {"gpt", "GPT: the next token from those before it", nullptr, gpt_model},
      {"llama", "Llama: the next token, with rotary positions and gated dense layers", nullptr,
       llama_model},
      {"lstm", "LSTM: the next token, from a state that goes on from window to window", nullptr,
       lstm_model},
      {"gru", "gated recurrent units: the next token, as an lstm", nullptr, gru_model},
      {"transformer", "encoder and decoder: a sentence from another, such as a translation",
       nullptr, transformer_model},
      {"text-cnn", "convolutions over 3, 4 and 5 words: the class of a sentence (Kim)", nullptr,
       text_cnn_model},
      {"bilstm", "LSTMs in both directions: the class of a sentence or a recording", nullptr,
       bilstm_model},
      {"bigru", "gated recurrent units in both directions: a class, as a bilstm", nullptr,
       bigru_model},
      {"perceptron", "dense layers with ReLU, for the rows of a table", nullptr, perceptron_model},
  };
  return list;
}

}  // namespace

const std::deque<ModelInfo>& all_models() { return models(); }

void register_model(ModelInfo model) {
  PODIUM_REQUIRE(is_plain_name(model.name), ExitCode::kUsage, "model \"", model.name,
                 "\": a name has letters, digits, '-', '_' and '.', and begins with one of the "
                 "first two");
  PODIUM_REQUIRE(std::ranges::find(models(), model.name, &ModelInfo::name) == models().end(),
                 ExitCode::kUsage, "model \"", model.name,
                 "\" is registered already; give it another name");
  PODIUM_REQUIRE(model.build || model.sized, ExitCode::kUsage, "model \"", model.name,
                 "\" has no function that builds it");
  models().push_back(std::move(model));
}

const ModelInfo& find_model(const std::string& name) {
  std::string known;
  for (const ModelInfo& model : models()) {
    if (name == model.name) return model;
    known += cat(known.empty() ? "" : ", ", model.name);
  }
  throw UserError(cat("model = \"", name, "\": no such model; known are ", known));
}

Model model_of(const ModelInfo& info, const NetworkOptions& options) {
  return info.sized ? info.sized(options) : info.build;
}

}  // namespace podium
