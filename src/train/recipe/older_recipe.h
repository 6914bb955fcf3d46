// Recipes of before there were groups of parameters by patterns of names: three tables,
// [optimizer.filters], [optimizer.dense], [optimizer.whitening], had the weights of convolutions,
// those of dense layers and the bias of a whitening convolution. Run folders and published
// results hold them, so they are still read, for the models that there were; nothing writes them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// In the order in which a parameter was looked for.
inline constexpr std::array<std::string_view, 3> kOlderGroups = {
    "optimizer.filters", "optimizer.dense", "optimizer.whitening"};

constexpr std::size_t older_rank(std::string_view table) {
  std::size_t rank = 0;
  while (rank < kOlderGroups.size() && kOlderGroups[rank] != table) ++rank;
  return rank;
}
constexpr bool is_older_group(std::string_view table) {
  return older_rank(table) < kOlderGroups.size();
}

// The patterns of a table's parameters; none where the model had none of these.
inline std::vector<std::string> older_group(std::string_view model, std::string_view table) {
  struct Group {
    std::string_view model;
    std::array<const char*, kOlderGroups.size()> patterns;  // null: it has none
  };
  constexpr Group kGroups[] = {
      {"mnist", {"conv*.weight", "fc*.weight", nullptr}},
      {"davidnet", {"*.conv.weight", "linear.weight", nullptr}},
      {"resnet32", {"*conv?.weight", "fc.weight", nullptr}},
      {"sprint", {"group*.conv*.weight", "head.weight", "whiten.bias"}},
  };
  const std::size_t rank = older_rank(table);
  for (const Group& group : kGroups) {
    if (rank < kOlderGroups.size() && group.model == model && group.patterns[rank] != nullptr)
      return {group.patterns[rank]};
  }
  return {};
}

}  // namespace podium
