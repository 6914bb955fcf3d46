#include "files/safetensors.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/json_text.h"
#include "files/file_io.h"
#include "files/stored.h"

namespace podium {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

using nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kLengthBytes = 8;

std::optional<Stored> file_type(std::string_view text) {
  if (text == "F32") return Stored::kF32;
  if (text == "F16") return Stored::kF16;
  if (text == "BF16") return Stored::kBf16;
  if (text == "I32") return Stored::kI32;
  if (text == "U32") return Stored::kU32;
  if (text == "I64") return Stored::kI64;
  return std::nullopt;
}

std::string_view file_type_text(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kI32: return "I32";
    case DType::kU32: return "U32";
  }
  return "";
}

struct Entry {
  std::string name;
  std::optional<Stored> type;
  std::vector<std::uint64_t> shape, offsets;
  bool has_shape = false, has_offsets = false;
};

struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<Entry> entries;
};

// Reads the header as a stream of events, so that a hostile one costs no more than its own size.
// Where the reader stands is `place_`; every event that does not fit there is an error.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& source) : source_(source) {}

  Header take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTopValue) {
      place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
      if (place_ == Place::kTensor) header_.entries.emplace_back().name = key_;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    switch (place_) {
      case Place::kTop:
        if (!names_.insert(name).second) fail(cat("the key \"", name, "\" appears twice"));
        key_ = name;
        place_ = Place::kTopValue;
        return true;
      case Place::kMetadata:
        if (header_.metadata.contains(name))
          fail(cat("the metadata key \"", name, "\" appears twice"));
        metadata_key_ = name;
        place_ = Place::kMetadataValue;
        return true;
      case Place::kTensor: {
        Entry& entry = header_.entries.back();
        if (name == "dtype" && !entry.type) {
          place_ = Place::kType;
        } else if (name == "shape" && !entry.has_shape) {
          entry.has_shape = true;
          place_ = Place::kShape;
        } else if (name == "data_offsets" && !entry.has_offsets) {
          entry.has_offsets = true;
          place_ = Place::kOffsets;
        } else {
          fail(cat("the key \"", name,
                   "\" is unknown or appears twice; a tensor has dtype, shape and data_offsets"));
        }
        return true;
      }
      default: return unexpected("a key");
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      const Entry& entry = header_.entries.back();
      if (!entry.type || !entry.has_shape || !entry.has_offsets)
        fail("dtype, shape and data_offsets must all be present");
      place_ = Place::kTop;
    } else if (place_ == Place::kMetadata) {
      place_ = Place::kTop;
    } else {
      place_ = Place::kEnd;  // the parser has matched the braces
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kShape) {
      place_ = Place::kShapeList;
    } else if (place_ == Place::kOffsets) {
      place_ = Place::kOffsetsList;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsetsList && header_.entries.back().offsets.size() != 2)
      fail("data_offsets must be two numbers, begin and end");
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShapeList) {
      std::vector<std::uint64_t>& shape = header_.entries.back().shape;
      if (shape.size() == kMaxRank) fail(cat("the shape has more than ", kMaxRank, " extents"));
      shape.push_back(value);
    } else if (place_ == Place::kOffsetsList) {
      std::vector<std::uint64_t>& offsets = header_.entries.back().offsets;
      if (offsets.size() == 2) fail("data_offsets must be two numbers, begin and end");
      offsets.push_back(value);
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool number_integer(number_integer_t value) override {
    if (place_ == Place::kShapeList || place_ == Place::kOffsetsList)
      fail(cat("the number ", value, " is negative"));
    return unexpected("a number");
  }

  bool number_float(number_float_t, const string_t& text) override {
    if (place_ == Place::kShapeList || place_ == Place::kOffsetsList)
      fail(cat("the number ", text, " is not a whole one below 2^64"));
    return unexpected("a number");
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadataValue) {
      header_.metadata[metadata_key_] = value;
      place_ = Place::kMetadata;
    } else if (place_ == Place::kType) {
      header_.entries.back().type = file_type(value);
      if (!header_.entries.back().type)
        fail(cat("dtype ", value,
                 " is not one of F32, F16, BF16, I32, U32, I64; convert it to F32"));
      place_ = Place::kTensor;
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw UserError(cat(source_, ": the header is not JSON at byte ", kLengthBytes + position, " (",
                        error.what(), "); the file is damaged or not a safetensors file"),
                    ExitCode::kData);
  }

 private:
  enum class Place {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kTensor,
    kType,
    kShape,
    kShapeList,
    kOffsets,
    kOffsetsList,
    kEnd
  };

  [[noreturn]] void fail(const std::string& rule) const {
    const bool in_tensor = place_ >= Place::kTensor && place_ <= Place::kOffsetsList;
    throw UserError(cat(source_, in_tensor ? ": tensor \"" + key_ + "\": " : ": header: ", rule),
                    ExitCode::kData);
  }
  bool unexpected(std::string_view what) const {
    std::string_view wanted = "one object is the whole header";
    switch (place_) {
      case Place::kStart: wanted = "the header must be an object"; break;
      case Place::kTopValue: wanted = "each key must have an object"; break;
      case Place::kMetadataValue: wanted = "metadata must be strings"; break;
      case Place::kType: wanted = "dtype must be a string"; break;
      case Place::kShape:
      case Place::kShapeList: wanted = "shape must be a list of numbers"; break;
      case Place::kOffsets:
      case Place::kOffsetsList: wanted = "data_offsets must be a list of two numbers"; break;
      default: break;
    }
    fail(cat(what, " is not allowed here: ", wanted));
  }

  const std::string& source_;
  Header header_;
  Place place_ = Place::kStart;
  std::string key_, metadata_key_;
  std::unordered_set<std::string> names_;
};

// Checks S5 to S7 and puts the entries into the order of their bytes.
void check_layout(std::vector<Entry>& entries, std::uint64_t data_bytes,
                  const std::string& source) {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 8;
  for (const Entry& entry : entries) {
    const auto where = [&] { return cat(source, ": tensor \"", entry.name, "\": "); };
    // Zeros are left out of the product, so that no partial product can overflow later on.
    std::uint64_t product = 1;
    bool empty = false;
    for (const std::uint64_t extent : entry.shape) {
      if (extent == 0) {
        empty = true;
        continue;
      }
      PODIUM_REQUIRE(extent <= kLimit && product <= kLimit / extent, ExitCode::kData, where(),
                     "the product of the shape's extents is above 2^60");
      product *= extent;
    }
    const std::uint64_t bytes =
        empty ? 0 : product * static_cast<std::uint64_t>(bytes_of(*entry.type));
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    PODIUM_REQUIRE(begin <= end && end <= data_bytes, ExitCode::kData, where(), "data_offsets [",
                   begin, ", ", end, "] lie outside the ", data_bytes,
                   " bytes of data; the file is truncated or damaged: copy it again");
    PODIUM_REQUIRE(end - begin == bytes, ExitCode::kData, where(), "data_offsets span ",
                   end - begin, " bytes, the shape needs ", bytes, "; the file is damaged");
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  std::uint64_t covered = 0;
  for (const Entry& entry : entries) {
    PODIUM_REQUIRE(entry.offsets[0] == covered, ExitCode::kData, source, ": tensor \"", entry.name,
                   "\": begins at byte ", entry.offsets[0], " of the data, ",
                   entry.offsets[0] < covered ? "inside the tensor before it" : "leaving a gap",
                   "; tensors must follow each other (expected ", covered, ")");
    covered = entry.offsets[1];
  }
  PODIUM_REQUIRE(covered == data_bytes, ExitCode::kData, source, ": ", data_bytes - covered,
                 " bytes after the last tensor; the file is damaged: copy it again");
}

// `read` fills a span from an offset in the file.
template <typename Read>
SafetensorsFile read_from(std::uint64_t size, const std::string& source, const Read& read) {
  std::uint64_t header_bytes = 0;
  PODIUM_REQUIRE(size >= kLengthBytes, ExitCode::kData, source, ": has ", size,
                 " bytes; a safetensors file begins with 8 bytes of header length");
  read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  PODIUM_REQUIRE(header_bytes <= kMaxHeaderBytes && header_bytes <= size - kLengthBytes,
                 ExitCode::kData, source, ": header length ", header_bytes, " is above ",
                 std::min(kMaxHeaderBytes, size - kLengthBytes),
                 "; the file is truncated, damaged or not a safetensors file");
  std::string text(header_bytes, '\0');
  read(kLengthBytes, std::as_writable_bytes(std::span(text)));

  PODIUM_REQUIRE(
      !text.empty() && text[0] == '{', ExitCode::kData, source,
      ": the header does not begin with '{'; the file is damaged or not a safetensors file");
  HeaderReader reader(source);
  json::sax_parse(text.begin(), text.end(), &reader);
  Header header = reader.take();
  const std::uint64_t data_begin = kLengthBytes + header_bytes;
  check_layout(header.entries, size - data_begin, source);

  SafetensorsFile file;
  file.metadata = std::move(header.metadata);
  file.tensors.reserve(header.entries.size());
  for (Entry& entry : header.entries) {
    const Stored stored = *entry.type;
    Tensor tensor(dtype_of(stored),
                  Shape(std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())));
    const std::uint64_t offset = data_begin + entry.offsets[0];
    const std::size_t bytes = entry.offsets[1] - entry.offsets[0];
    if (is_kept(stored)) {
      read(offset, std::span(static_cast<std::byte*>(tensor.data()), bytes));
    } else {
      std::vector<std::byte> own(bytes);
      read(offset, std::span(own));
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const std::byte* const from = own.data() + i * bytes_of(stored);
        PODIUM_REQUIRE(store(stored, from, tensor, i), ExitCode::kData, source, ": tensor \"",
                       entry.name, "\": ", i64_at(from),
                       " does not fit in 32 bits; save it as I32");
      }
    }
    file.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  return file;
}

// As what a tensor is written.
Stored stored_as(DType dtype, FloatFormat floats) {
  if (dtype == DType::kU32) return Stored::kU32;
  if (dtype == DType::kI32) return Stored::kI32;
  if (floats == FloatFormat::kFp32) return Stored::kF32;
  return floats == FloatFormat::kFp16 ? Stored::kF16 : Stored::kBf16;
}

std::string_view stored_text(Stored stored) {
  switch (stored) {
    case Stored::kF16: return "F16";
    case Stored::kBf16: return "BF16";
    default: return file_type_text(dtype_of(stored));
  }
}

// The numbers of a tensor in half of their bytes.
std::vector<std::uint16_t> halved(const NamedTensor& named, Stored stored,
                                  const std::filesystem::path& path) {
  std::vector<std::uint16_t> bits;
  bits.reserve(static_cast<std::size_t>(named.tensor.elements()));
  for (const float value : named.tensor.f32()) {
    const bool fp16 = stored == Stored::kF16;
    bits.push_back(fp16 ? fp16_bits(value) : stored_bf16_bits(value));
    const float written = fp16 ? fp16_value(bits.back()) : bf16_value(bits.back());
    PODIUM_REQUIRE(std::isfinite(written) || !std::isfinite(value), ExitCode::kData, path.string(),
                   ": \"", named.name, "\" has ", value, ", which is too large for ",
                   stored_text(stored), "; write it in another format");
  }
  return bits;
}

std::string header_text(std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata, FloatFormat floats) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::unordered_set<std::string_view> names;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    PODIUM_CHECK(!name.empty() && name != kMetadataKey && names.insert(name).second, name);
    PODIUM_CHECK(static_cast<std::size_t>(tensor.shape().rank()) <= kMaxRank, name);
    const Stored stored = stored_as(tensor.dtype(), floats);
    const std::int64_t end = offset + tensor.elements() * bytes_of(stored);
    auto shape = nlohmann::ordered_json::array();
    for (std::int64_t i = 0; i < tensor.shape().rank(); ++i) shape.push_back(tensor.shape()[i]);
    header[name] = {{"dtype", stored_text(stored)},
                    {"shape", std::move(shape)},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json_text(header);
  // So that the data begin at a multiple of 64 bytes, as vectors like it; the format asks for 8.
  text.append((64 - (kLengthBytes + text.size()) % 64) % 64, ' ');
  return text;
}

}  // namespace

const Tensor* find_tensor(std::span<const NamedTensor> tensors, std::string_view name) {
  for (const NamedTensor& entry : tensors)
    if (entry.name == name) return &entry.tensor;
  return nullptr;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path, StopToken stop) {
  const InputFile file(path, stop);
  return read_from(file.size(), path.string(),
                   [&](std::uint64_t offset, std::span<std::byte> to) { file.read(offset, to); });
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& source) {
  return read_from(bytes.size(), source, [&](std::uint64_t offset, std::span<std::byte> to) {
    if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
  });
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata,
                              FloatFormat floats) {
  const std::string header = header_text(tensors, metadata, floats);
  PODIUM_CHECK(header.size() <= kMaxHeaderBytes, header.size());
  return replace_file(path, [&](OutputFile& file) {
    const std::uint64_t length = header.size();
    file.write(std::as_bytes(std::span(&length, 1)));
    file.write(header);
    for (const NamedTensor& named : tensors) {
      const Tensor& tensor = named.tensor;
      const Stored stored = stored_as(tensor.dtype(), floats);
      if (is_kept(stored)) {
        file.write(std::span(static_cast<const std::byte*>(tensor.data()),
                             static_cast<std::size_t>(tensor.type().bytes())));
      } else {
        const std::vector<std::uint16_t> bits = halved(named, stored, path);
        file.write(std::as_bytes(std::span(bits)));
      }
    }
  });
}

}  // namespace podium
