// The loop of byte-pair encodings: two neighbours become one token, again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace podium {

// Merges the pair of neighbours of the least key, the leftmost of equal ones, until no pair has a
// key. find(left, right, key, joint) says whether two tokens may be merged, how early and to what.
template <typename Key, typename Find>
std::vector<std::int32_t> merge_pairs(std::vector<std::int32_t> tokens, const Find& find) {
  const std::size_t count = tokens.size();
  // A token begins at each place whose `next` is not kGone, and ends where the next one begins.
  constexpr std::size_t kGone = 0;
  std::vector<std::size_t> next(count), previous(count);
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // of the first one: the largest number
  }
  struct Candidate {
    Key key;
    std::size_t at;
    std::int32_t left, right, joint;
    bool operator<(const Candidate& other) const {  // for a queue whose top is the largest
      return key != other.key ? key > other.key : at > other.at;
    }
  };
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::size_t at) {
    if (at >= count || next[at] >= count) return;
    Candidate pair{Key(), at, tokens[at], tokens[next[at]], 0};
    if (find(pair.left, pair.right, pair.key, pair.joint)) queue.push(pair);
  };
  for (std::size_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::size_t at = best.at, right = next[at];
    // One of the two was merged meanwhile.
    if (right == kGone || right >= count || tokens[at] != best.left || tokens[right] != best.right)
      continue;
    tokens[at] = best.joint;
    next[at] = next[right];
    next[right] = kGone;
    if (next[at] < count) previous[next[at]] = at;
    offer(at);
    offer(previous[at]);
  }
  std::vector<std::int32_t> merged;
  for (std::size_t i = 0; i < count; i = next[i]) merged.push_back(tokens[i]);
  return merged;
}

}  // namespace podium
