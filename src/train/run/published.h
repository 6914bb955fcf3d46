// Weights of networks that others published, under the names and in the shapes of ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace podium {

// Of model "gpt": the names of GPT-2 as Hugging Face and nanoGPT write them. Query, key and value,
// which they hold as one matrix `attn.c_attn`, become three; matrices [in, out], as Hugging Face
// has them, become [out, in]; a prefix `transformer.` goes, `lm_head` becomes `head`; of more
// positions than `positions` the first are kept. Tensors of other models and names stay as they
// are. Throws UserError(kData) if `attn.c_attn` is not three times as long as wide.
std::vector<NamedTensor> from_published(const std::string& model, std::int64_t positions,
                                        std::vector<NamedTensor> tensors);

// The other way: parameters and running statistics of a checkpoint under the names and in the
// shapes of Hugging Face's GPT2LMHeadModel. Those of other models, whose names are the published
// ones already, stay as they are. What belongs to the training alone (the optimizer's state,
// carried values) is left out.
std::vector<NamedTensor> to_published(const std::string& model,
                                      const std::vector<NamedTensor>& tensors);

}  // namespace podium
