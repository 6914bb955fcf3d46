#include "data/pictures/shards/records.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/words.h"

namespace podium {

bool is_picture_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string end = lowercase(std::string(name.substr(dot + 1)));
  return end == "jpg" || end == "jpeg" || end == "png";
}

std::uint64_t hash_of_text(std::string_view text) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

HeldOut hold_out(const std::string& origin, std::span<const std::int32_t> labels, double share,
                 const std::function<std::uint64_t(std::uint32_t)>& name_hash) {
  struct Record {
    std::int32_t label;
    std::uint32_t index;
    std::uint64_t hash;
  };
  std::vector<Record> all;
  all.reserve(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    all.push_back({labels[i], index, name_hash(index)});
  }
  std::ranges::sort(all, {}, [](const Record& record) {
    return std::tuple(record.label, record.hash, record.index);
  });
  HeldOut parts;
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end =
        std::find_if(begin, all.end(), [&](const Record& r) { return r.label != begin->label; });
    const auto size = end - begin;
    auto held_out = static_cast<std::ptrdiff_t>(std::nearbyint(share * static_cast<double>(size)));
    if (held_out == 0 && size >= 2) held_out = 1;
    if (held_out == size && held_out > 0) --held_out;
    for (auto it = begin; it != end; ++it)
      (it - begin < held_out ? parts.test : parts.train).push_back(it->index);
    begin = end;
  }
  std::ranges::sort(parts.train);
  std::ranges::sort(parts.test);
  PODIUM_REQUIRE(!parts.test.empty(), ExitCode::kData, origin, ": has ",
                 count_text(std::ssize(labels), "picture"),
                 ", and no class has two, so none can be held out; add pictures");
  return parts;
}

std::int64_t part_bytes(std::int64_t count, std::int64_t all, std::int64_t index_bytes) {
  const double share = static_cast<double>(count) / static_cast<double>(all);
  return static_cast<std::int64_t>(share * static_cast<double>(index_bytes)) +
         count * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

}  // namespace podium
