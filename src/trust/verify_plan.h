// Which steps of a run are computed again: drawn at random among those with a hash, each from the
// last checkpoint before it. What is drawn depends on the seed alone, so that whoever is checked
// cannot know it and everybody can repeat it.
#pragma once

#include <cstdint>
#include <vector>

namespace podium {

// Steps computed one after the other, from the state after step `from` (a checkpoint; 0: the
// values that the run began with) up to `to`.
struct Walk {
  std::int64_t from = 0, to = 0;
  bool operator==(const Walk&) const = default;
};

struct VerifyPlan {
  std::vector<std::int64_t> drawn;  // rising
  std::vector<Walk> walks;          // rising, of at least one step
  std::int64_t steps() const;       // of all walks
};

// `count` of the rising items, or all, rising.
std::vector<std::int64_t> draw(std::vector<std::int64_t> items, std::int64_t count,
                               std::uint64_t seed);

// `steps`: those that can be drawn, rising. `starts`: the steps whose state is known, rising. Steps
// before the first of them must not be among `steps`. Draws `count` of them, or all.
VerifyPlan draw_steps(const std::vector<std::int64_t>& steps,
                      const std::vector<std::int64_t>& starts, std::int64_t count,
                      std::uint64_t seed);

// The largest count whose walks, as a mean over drawings, have at most `most` steps; 0: even one
// drawn step needs more. What is drawn in the end does not depend on how far it is from a
// checkpoint: leaving out what is too far would make it safe to cheat there.
std::int64_t count_for(const std::vector<std::int64_t>& steps,
                       const std::vector<std::int64_t>& starts, std::int64_t most);
// That mean.
double mean_steps(const std::vector<std::int64_t>& steps, const std::vector<std::int64_t>& starts,
                  std::int64_t count);

// The probability that at least one of `drawn` steps of `all` is among the `wrong` ones.
double chance_of_finding(std::int64_t all, std::int64_t drawn, std::int64_t wrong);

}  // namespace podium
