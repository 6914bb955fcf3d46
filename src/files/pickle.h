// What a pickle of PyTorch says about tensors. It is read as data, and nothing of it is executed:
// of the calls that a pickle may ask for, those alone are known that make a dictionary or a tensor;
// any other is an error that names it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// A tensor of a state dict: where its elements lie in a storage.
struct PickledTensor {
  std::string name;
  std::string kind;                    // of its storage: "FloatStorage"
  std::string storage;                 // its key
  std::int64_t count = 0, offset = 0;  // elements of the storage, and before the first
  std::vector<std::int64_t> extents, strides;
};

// The tensors of a state dict, or of the one that lies in the dictionary under "state_dict",
// "model_state_dict" or "model". Throws UserError(kData), which begins with `source` and names the
// byte, for anything else.
std::vector<PickledTensor> tensors_of_pickle(std::string_view pickle, const std::string& source);

}  // namespace podium
