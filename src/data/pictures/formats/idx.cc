#include "data/pictures/formats/idx.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "files/byte_source.h"

namespace podium {
namespace {

constexpr int kMostRank = 4;
constexpr int kUnsignedByte = 0x08;
// Most of the elements that are asked for at a time.
constexpr std::uint64_t kStep = std::uint64_t{1} << 24;

std::string hex(std::uint32_t value) {
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789ABCDEF"[(value >> shift) & 15];
  return text;
}

std::string type_name(int type) {
  switch (type) {
    case 0x08: return "unsigned bytes";
    case 0x09: return "signed bytes";
    case 0x0B: return "16-bit integers";
    case 0x0C: return "32-bit integers";
    case 0x0D: return "floats";
    case 0x0E: return "doubles";
    default: return "";
  }
}

class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, const IdxRules& rules)
      : source_(source), name_(name), rules_(rules) {
    PODIUM_CHECK(rules.most.empty() || std::ssize(rules.most) == rules.rank, rules.rank);
  }

  IdxData read() {
    const int rank = read_magic();
    IdxData data;
    const std::uint64_t size = read_extents(rank, data);
    // A header that nothing bounds may state any size.
    if (!rules_.most.empty()) data.bytes.reserve(size);
    while (data.bytes.size() < size) {
      rules_.stop.check();
      const std::size_t before = data.bytes.size();
      data.bytes.resize(std::min<std::uint64_t>(size, before + kStep));
      const std::size_t n = source_.read(std::span(data.bytes).subspan(before));
      position_ += n;
      if (before + n == data.bytes.size()) continue;
      fail(position_, cat("the file ends here: ", before + n, " of the ", size,
                          " elements that its header states (", dimensions(data.extents), ")"));
    }
    std::uint8_t beyond = 0;
    if (source_.read({&beyond, 1}) != 0) {
      fail(position_, cat("data continues after the ", size, " elements that the header states (",
                          dimensions(data.extents), ")"));
    }
    return data;
  }

 private:
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const {
    throw UserError(cat(name_, ": at byte ", offset, source_.packed() ? " (unpacked): " : ": ",
                        what, "; ", rules_.remedy),
                    ExitCode::kData);
  }

  static std::string dimensions(const std::vector<std::int64_t>& extents) {
    std::string text;
    for (const std::int64_t extent : extents) text += cat(text.empty() ? "" : " x ", extent);
    return text;
  }

  std::uint32_t read_word(const char* what) {
    std::array<std::uint8_t, 4> bytes{};
    const std::size_t n = source_.read(bytes);
    if (n == 0 && position_ == 0) fail(0, "the file is empty");
    if (n < bytes.size()) fail(position_ + n, cat("the file ends here, inside ", what));
    position_ += bytes.size();
    return (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) |
           (std::uint32_t{bytes[2]} << 8) | bytes[3];
  }

  int read_magic() {
    const std::uint32_t magic = read_word("the magic number");
    const int type = static_cast<int>(magic >> 8);
    const int rank = static_cast<int>(magic & 0xFF);
    const std::string wanted = rules_.rank == 0
                                   ? "0x00000801 to 0x00000804"
                                   : hex((static_cast<std::uint32_t>(kUnsignedByte) << 8) +
                                         static_cast<std::uint32_t>(rules_.rank));
    if (type_name(type).empty()) {
      fail(0,
           cat("the magic number is ", hex(magic), ", not ", wanted, ": this is not an IDX file"));
    }
    if (type != kUnsignedByte) {
      fail(2, cat("the elements are ", type_name(type), " (magic number ", hex(magic),
                  "); unsigned bytes (", wanted, ") are required"));
    }
    if (rank < 1 || rank > kMostRank || (rules_.rank != 0 && rank != rules_.rank)) {
      fail(3, cat("the magic number is ", hex(magic), " (", rank,
                  rank == 1   ? " dimension: labels?"
                  : rank == 3 ? " dimensions: images?"
                              : " dimensions",
                  "), not ", wanted));
    }
    return rank;
  }

  // Returns the number of elements, once it is known that the file can hold them.
  std::uint64_t read_extents(int rank, IdxData& data) {
    std::uint64_t size = 1;
    bool too_many = false;
    for (int i = 0; i < rank; ++i) {
      const std::uint32_t extent = read_word("the extents");
      data.extents.push_back(extent);
      too_many = too_many || (extent != 0 && size > source_.most_bytes() / extent);
      size *= extent;
    }
    const std::uint64_t most = source_.most_bytes() - std::min(position_, source_.most_bytes());
    if (too_many || size > most) {
      if (source_.packed()) {
        fail(4, cat("the header states ", dimensions(data.extents),
                    " elements, more than a file of this size can contain"));
      }
      fail(source_.most_bytes(), cat("the file ends here: ", most, " of the ",
                                     dimensions(data.extents), " elements that its header states"));
    }
    for (std::size_t i = 0; i < rules_.most.size(); ++i) {
      if (data.extents[i] <= rules_.most[i]) continue;
      fail(4 + 4 * i, cat("the header states ", dimensions(data.extents), " elements; at most ",
                          dimensions(rules_.most), " are allowed here"));
    }
    return size;
  }

  ByteSource& source_;
  const std::string& name_;
  const IdxRules& rules_;
  std::uint64_t position_ = 0;
};

}  // namespace

IdxData read_idx(const std::string& path, const IdxRules& rules) {
  const auto source = open_file(path, rules.remedy);
  return Reader(*source, path, rules).read();
}

IdxData parse_idx(std::span<const std::uint8_t> file, const std::string& name,
                  const IdxRules& rules) {
  const auto source = open_bytes(file, name, rules.remedy);
  return Reader(*source, name, rules).read();
}

}  // namespace podium
