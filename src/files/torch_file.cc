#include "files/torch_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "files/archive.h"
#include "files/float16.h"
#include "files/pickle.h"

namespace podium {
namespace {

constexpr const char* kRemedy =
    "copy it again, or save it anew: torch.save(model.state_dict(), FILE)";
constexpr std::uint64_t kMostPickleBytes = std::uint64_t{64} << 20;

// Of the storages that can be read.
enum class Stored : std::uint8_t { kFp32, kFp16, kBf16, kI32, kI64 };
struct StoredKind {
  const char* name;
  Stored stored;
  std::int64_t bytes;
};
constexpr StoredKind kKinds[] = {{"FloatStorage", Stored::kFp32, 4},
                                 {"HalfStorage", Stored::kFp16, 2},
                                 {"BFloat16Storage", Stored::kBf16, 2},
                                 {"IntStorage", Stored::kI32, 4},
                                 {"LongStorage", Stored::kI64, 8}};

std::string all_of(ByteSource& bytes, std::uint64_t most, const std::string& what) {
  std::string text;
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  while (true) {
    const std::size_t before = text.size();
    text.resize(before + kBlock);
    const std::size_t read =
        bytes.read({reinterpret_cast<std::uint8_t*>(text.data()) + before, kBlock});
    text.resize(before + read);
    PODIUM_REQUIRE(text.size() <= most, ExitCode::kData, what, " has more than the ", most,
                   " bytes that it should have; ", kRemedy);
    if (read < kBlock) return text;
  }
}

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
        pickle = all_of(from, kMostPickleBytes, cat(source_, ": ", member));
      if (within(member) == "byteorder")
        PODIUM_REQUIRE(all_of(from, 16, cat(source_, ": ", member)) == "little", ExitCode::kData,
                       source_, ": its numbers are big-endian; save it on another machine");
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
  const StoredKind& kind_of(const PickledTensor& one) const {
    const auto* const found = std::ranges::find(kKinds, one.kind, &StoredKind::name);
    PODIUM_REQUIRE(found != std::end(kKinds), ExitCode::kData, where(one), "its numbers are a ",
                   one.kind, ", which is not read; save it as FP32: model.float()");
    return *found;
  }

  void read_storages(const std::vector<PickledTensor>& list) {
    std::map<std::string, std::uint64_t> wanted;
    for (const PickledTensor& one : list) {
      const std::int64_t bytes = kind_of(one).bytes;
      PODIUM_REQUIRE(one.count <= std::ssize(bytes_) / bytes, ExitCode::kData, where(one),
                     "its storage has ", one.count, " numbers, more than the file; ", kRemedy);
      std::uint64_t& most = wanted["data/" + one.storage];
      most = std::max(most, static_cast<std::uint64_t>(one.count * bytes));
    }
    parse_zip(bytes_, source_, kRemedy, [&](const std::string& member, ByteSource& from) {
      if (const auto found = wanted.find(within(member)); found != wanted.end())
        storages_[found->first] = all_of(from, found->second, cat(source_, ": ", member));
      return true;
    });
  }

  Tensor tensor_of(const PickledTensor& one) const {
    const StoredKind& kind = kind_of(one);
    const auto found = storages_.find("data/" + one.storage);
    PODIUM_REQUIRE(found != storages_.end() && std::ssize(found->second) == one.count * kind.bytes,
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
    const bool whole = kind.stored == Stored::kI32 || kind.stored == Stored::kI64;
    Tensor tensor(whole ? DType::kI32 : DType::kF32, Shape(one.extents));
    const char* const from = found->second.data();
    std::vector<std::int64_t> index(one.extents.size());
    for (std::int64_t i = 0; i < elements; ++i) {
      std::int64_t place = one.offset;
      for (std::size_t axis = 0; axis < index.size(); ++axis)
        place += index[axis] * one.strides[axis];
      set(tensor, i, from + place * kind.bytes, kind.stored, one);
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < one.extents[axis]) break;
        index[axis] = 0;
      }
    }
    return tensor;
  }

  void set(Tensor& tensor, std::int64_t i, const char* from, Stored stored,
           const PickledTensor& one) const {
    const auto at = static_cast<std::size_t>(i);
    std::uint16_t half = 0;
    std::int64_t wide = 0;
    switch (stored) {
      case Stored::kFp32: std::memcpy(&tensor.f32()[at], from, 4); return;
      case Stored::kI32: std::memcpy(&tensor.i32()[at], from, 4); return;
      case Stored::kFp16:
        std::memcpy(&half, from, 2);
        tensor.f32()[at] = float_of_fp16(half);
        return;
      case Stored::kBf16:
        std::memcpy(&half, from, 2);
        tensor.f32()[at] = bf16_value(half);
        return;
      case Stored::kI64:
        std::memcpy(&wide, from, 8);
        PODIUM_REQUIRE(std::in_range<std::int32_t>(wide), ExitCode::kData, where(one), wide,
                       " does not fit in 32 bits");
        tensor.i32()[at] = static_cast<std::int32_t>(wide);
        return;
    }
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
  const std::string bytes = all_of(*file, file->most_bytes(), path.string());
  return parse_torch_file({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                          path.string());
}

std::vector<NamedTensor> parse_torch_file(std::span<const std::uint8_t> bytes,
                                          const std::string& source) {
  return TorchFile(bytes, source).tensors();
}

}  // namespace podium
