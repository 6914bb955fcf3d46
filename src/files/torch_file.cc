#include "files/torch_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "files/archive.h"
#include "files/pickle.h"
#include "files/stored.h"

namespace podium {
namespace {

constexpr const char* kRemedy =
    "copy it again, or save it anew: torch.save(model.state_dict(), FILE)";
constexpr std::uint64_t kMostPickleBytes = std::uint64_t{64} << 20;

// The storages that can be read.
constexpr std::pair<const char*, Stored> kKinds[] = {{"FloatStorage", Stored::kF32},
                                                     {"HalfStorage", Stored::kF16},
                                                     {"BFloat16Storage", Stored::kBf16},
                                                     {"IntStorage", Stored::kI32},
                                                     {"LongStorage", Stored::kI64}};

// "name/data.pkl" -> "data.pkl"; the first folder has any name.
std::string within(const std::string& member) {
  const std::size_t slash = member.find('/');
  return slash == std::string::npos ? "" : member.substr(slash + 1);
}

class TorchFile {
 public:
  TorchFile(std::span<const std::uint8_t> bytes, std::string source)
      : bytes_(bytes), source_(std::move(source)) {}

  std::vector<NamedTensor> tensors() {
    std::optional<std::string> pickle;
    parse_zip(bytes_, source_, kRemedy, [&](const std::string& member, ByteSource& from) {
      if (within(member) == "data.pkl")
        pickle = all_bytes(from, cat(source_, ": ", member), kRemedy, kMostPickleBytes);
      if (within(member) == "byteorder")
        PODIUM_REQUIRE(all_bytes(from, cat(source_, ": ", member), kRemedy, 16) == "little",
                       ExitCode::kData, source_,
                       ": its numbers are big-endian; save it on another machine");
      return true;
    });
    PODIUM_REQUIRE(pickle.has_value(), ExitCode::kData, source_,
                   ": the archive has no data.pkl, so it is no file of torch.save; ", kRemedy);
    const std::vector<PickledTensor> list = tensors_of_pickle(*pickle, source_);
    read_storages(list);
    std::vector<NamedTensor> tensors;
    for (const PickledTensor& one : list) tensors.push_back({one.name, tensor_of(one)});
    return tensors;
  }

 private:
  std::string where(const PickledTensor& one) const {
    return cat(source_, ": tensor \"", one.name, "\": ");
  }
  Stored stored_of(const PickledTensor& one) const {
    const auto* const found =
        std::ranges::find_if(kKinds, [&](const auto& kind) { return one.kind == kind.first; });
    PODIUM_REQUIRE(found != std::end(kKinds), ExitCode::kData, where(one), "its numbers are a ",
                   one.kind, ", which is not read; save it as FP32: model.float()");
    return found->second;
  }

  void read_storages(const std::vector<PickledTensor>& list) {
    std::map<std::string, std::uint64_t> wanted;
    for (const PickledTensor& one : list) {
      const std::int64_t bytes = bytes_of(stored_of(one));
      PODIUM_REQUIRE(one.count <= std::ssize(bytes_) / bytes, ExitCode::kData, where(one),
                     "its storage has ", one.count, " numbers, more than the file; ", kRemedy);
      std::uint64_t& most = wanted["data/" + one.storage];
      most = std::max(most, static_cast<std::uint64_t>(one.count * bytes));
    }
    parse_zip(bytes_, source_, kRemedy, [&](const std::string& member, ByteSource& from) {
      if (const auto found = wanted.find(within(member)); found != wanted.end())
        storages_[found->first] =
            all_bytes(from, cat(source_, ": ", member), kRemedy, found->second);
      return true;
    });
  }

  Tensor tensor_of(const PickledTensor& one) const {
    const Stored stored = stored_of(one);
    const std::int64_t bytes = bytes_of(stored);
    const auto found = storages_.find("data/" + one.storage);
    PODIUM_REQUIRE(found != storages_.end() && std::ssize(found->second) == one.count * bytes,
                   ExitCode::kData, where(one), "its storage ", one.storage,
                   " is missing or cut short; ", kRemedy);
    // No tensor has more numbers than its storage, and the last one lies within it.
    std::int64_t elements = 1, last = one.offset;
    bool fits = true;
    for (std::size_t axis = 0; axis < one.extents.size() && fits && elements != 0; ++axis) {
      const std::int64_t extent = one.extents[axis], stride = one.strides[axis];
      fits = extent == 0 ||
             (extent <= one.count / elements &&
              (stride == 0 || extent - 1 <= (one.count - 1 - last) / stride) && last < one.count);
      elements *= extent;
      if (fits && extent > 0) last += (extent - 1) * stride;
    }
    PODIUM_REQUIRE(fits && (elements == 0 || last < one.count), ExitCode::kData, where(one),
                   "it has numbers beyond its storage, or some of them twice; save a copy: ",
                   "tensor.clone()");
    Tensor tensor(dtype_of(stored), Shape(one.extents));
    std::vector<std::int64_t> index(one.extents.size());
    for (std::int64_t i = 0; i < elements; ++i) {
      std::int64_t place = one.offset;
      for (std::size_t axis = 0; axis < index.size(); ++axis)
        place += index[axis] * one.strides[axis];
      const char* const from = found->second.data() + place * bytes;
      PODIUM_REQUIRE(store(stored, from, tensor, i), ExitCode::kData, where(one), i64_at(from),
                     " does not fit in 32 bits");
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < one.extents[axis]) break;
        index[axis] = 0;
      }
    }
    return tensor;
  }

  std::span<const std::uint8_t> bytes_;
  std::string source_;
  std::map<std::string, std::string> storages_;  // by their member's name
};

}  // namespace

bool is_torch_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char begin[4] = {};
  return file.read(begin, 4) && std::memcmp(begin, "PK\3\4", 4) == 0;
}

std::vector<NamedTensor> read_torch_file(const std::filesystem::path& path) {
  const std::unique_ptr<ByteSource> file = open_file_as_is(path.string(), kRemedy);
  const std::string bytes = all_bytes(*file, path.string(), kRemedy, file->most_bytes());
  return parse_torch_file({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                          path.string());
}

std::vector<NamedTensor> parse_torch_file(std::span<const std::uint8_t> bytes,
                                          const std::string& source) {
  return TorchFile(bytes, source).tensors();
}

}  // namespace podium
