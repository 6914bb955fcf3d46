// Weights that other tools have downloaded to this machine, by the names that they are published
// under.
#pragma once

#include <string>

namespace podium {

// "torchvision/resnet50": the one file of this network in $TORCH_HOME/hub/checkpoints (default:
// ~/.cache/torch). "huggingface/gpt2", "huggingface/ORGANISATION/NAME": the snapshot of the branch
// main in $HF_HOME/hub (default: ~/.cache/huggingface), a folder. Any other text, and what exists
// as a path: the text itself. Throws UserError(kData), which says what was searched and how the
// file comes there, if there is none, or several that the name can mean.
std::string published_file(const std::string& name);

}  // namespace podium
