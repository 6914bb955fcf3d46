// The keys of a recipe that say how large a network is: [network].
#include "train/recipe/recipe_key_lists.h"

namespace podium {

// The size of a model that has more than one.
std::vector<RecipeKey> network_keys() {
  const std::vector<std::string> gpt = {"gpt"}, llama = {"llama"},
                                 attention = {"gpt", "llama", "transformer"},
                                 text = {"gpt", "llama", "lstm", "gru", "transformer"},
                                 any = {"gpt",   "llama",       "lstm",       "gru",     "bilstm",
                                        "bigru", "transformer", "perceptron", "text-cnn"};
  std::vector<std::string> layered = any;
  layered.pop_back();
  return {
      {.table = "network",
       .name = "layers",
       .field = PODIUM_RECIPE_FIELD(network.layers),
       .range = between(1, 1000),
       .fits = layered,
       .meaning = "number of blocks, each attention and a dense layer; of a transformer, of its "
                  "encoder and of its decoder; of an lstm, gru, bilstm and "
                  "bigru, of their layers; of a perceptron, dense layers before the last"},
      {.table = "network",
       .name = "heads",
       .field = PODIUM_RECIPE_FIELD(network.heads),
       .range = between(1, 1000),
       .fits = attention,
       .meaning = "heads of attention; they divide the width"},
      {.table = "network",
       .name = "width",
       .field = PODIUM_RECIPE_FIELD(network.width),
       .range = between(1, 65536),
       .fits = any,
       .meaning = "features of a token; of an lstm, a gru and a perceptron, units of a layer; "
                  "of a bilstm and a bigru, of a layer's direction"},
      {.table = "network",
       .name = "tied",
       .field = PODIUM_RECIPE_FIELD(network.tied),
       .fits = text,
       .meaning = "the last layer has the weights of the embedding"},
      {.table = "network",
       .name = "bias",
       .field = PODIUM_RECIPE_FIELD(network.bias),
       .fits = attention,
       .meaning = "dense layers and layer norms have a bias"},
      {.table = "network",
       .name = "dropout",
       .field = PODIUM_RECIPE_FIELD(network.dropout),
       .range = below_one(),
       .fits = any,
       .unit = "probability",
       .meaning = "share of the features that are dropped in training: of the embedding, and of "
                  "what each half of a block adds; of each recurrent layer, not along time; "
                  "of each layer of a perceptron; of what a text-cnn's last layer reads"},
      {.table = "network",
       .name = "gelu_tanh",
       .field = PODIUM_RECIPE_FIELD(network.gelu_tanh),
       .fits = gpt,
       .meaning = "GELU is computed by tanh, as in the published GPT-2, instead of by the normal "
                  "distribution"},
      {.table = "network",
       .name = "groups",
       .field = PODIUM_RECIPE_FIELD(network.groups),
       .range = between(0, 1000),
       .fits = llama,
       .meaning = "heads of keys and values, which divide `heads`: each serves as many heads of "
                  "queries; 0: as many as `heads`"},
      {.table = "network",
       .name = "hidden",
       .field = PODIUM_RECIPE_FIELD(network.hidden),
       .range = between(0, 1048576),
       .fits = {"llama", "transformer", "text-cnn"},
       .meaning =
           "units of a block's gated dense layer; 0: 8/3 of the width, rounded up to a "
           "multiple of 32. Of a transformer: units of a block's dense layer; 0: four times the "
           "width. Of a text-cnn: filters of each length; 0: 100"},
      {.table = "network",
       .name = "rotary_base",
       .field = PODIUM_RECIPE_FIELD(network.rotary_base),
       .range = above(0),
       .fits = llama,
       .meaning = "base of the angles by which queries and keys are turned: at token t, pair i of "
                  "D features turns by t / rotary_base^(2i / D)"},
      {.table = "network",
       .name = "initial_range",
       .field = PODIUM_RECIPE_FIELD(network.initial_range),
       .range = {.least = 0},
       .fits = {"lstm", "gru", "bilstm", "bigru", "text-cnn"},
       .meaning = "parameters begin between this and its negative, uniformly; 0: 1 divided by the "
                  "square root of the width. Of a text-cnn: the vectors of tokens alone; 0: 0.25"},
  };
}

}  // namespace podium
