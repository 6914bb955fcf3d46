// That the tests of the law find what a device does wrong: with any of the faults that a device
// with memory and a queue of its own can have, a run shows something else.
#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <tuple>
#include <vector>

#include "law_util.h"

namespace podium {
namespace {

// What a run on a device shows of its steps: hash, loss and correct answers of each.
using Shown = std::vector<std::tuple<std::uint64_t, float, std::int64_t>>;

Shown steps_of(Trainer& trainer) {
  Shown shown;
  for (int i = 0; i < 8; ++i) {
    const StepResult step = trainer.step({.hash = true});
    shown.emplace_back(step.hash, step.sums.loss, step.sums.count(kCorrectCount));
  }
  return shown;
}

// With this fault; nothing where the run ended by an error.
Shown shown_with(const DetachedOptions& options, std::int64_t workers) {
  register_detached_backend(options);
  Shown shown;
  try {
    shown = steps_of(*make_trainer(small_recipe(32, 4), workers, 1, "detached"));
  } catch (const std::exception&) {
  }
  register_detached_backend();
  return shown;
}

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, of_a_device_change_what_a_run_shows) {
  const Shown expected = steps_of(*make_trainer(small_recipe(32, 4), 1, 1, "cpu"));
  for (const std::int64_t workers : {1, 3}) {
    EXPECT_EQ(shown_with({}, workers), expected) << "without a fault";
    for (const std::uint64_t seed : {1, 2, 3}) {
      const DetachedOptions options{.fault = GetParam(), .seed = seed, .microseconds = 200};
      EXPECT_NE(shown_with(options, workers), expected)
          << "seed " << seed << ", " << workers << " workers";
    }
  }
}

std::string name_of_fault(const testing::TestParamInfo<Fault>& fault) {
  constexpr const char* kNames[] = {"none", "upload", "download", "synchronise", "donation", "bit"};
  return kNames[static_cast<std::size_t>(fault.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, Faults,
                         testing::Values(Fault::kUpload, Fault::kDownload, Fault::kSynchronise,
                                         Fault::kDonation, Fault::kBit),
                         name_of_fault);

}  // namespace
}  // namespace podium
