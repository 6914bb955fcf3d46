// Files of torch.save (PyTorch 1.6 and later): a zip archive with a pickle (files/pickle.h) and the
// bytes of the tensors' storages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace podium {

// Whether a file begins as a zip archive does.
bool is_torch_file(const std::filesystem::path& path);

// The tensors of a state dict. FP32 and i32 are kept; FP16 and BF16 become FP32, which holds all
// their values, and i64 (counters) i32. Throws UserError(kData), which names file and tensor, if
// the file is damaged, has more than tensors, or a value that does not fit.
std::vector<NamedTensor> read_torch_file(const std::filesystem::path& path);
// The same from memory; `source` names the bytes in errors.
std::vector<NamedTensor> parse_torch_file(std::span<const std::uint8_t> bytes,
                                          const std::string& source);

}  // namespace podium
