// A drawn text, and trainers on it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "law_util.h"

namespace podium {

// Words of syllables, so that there is something to learn.
inline std::string drawn_text() {
  std::string text;
  std::uint32_t state = 7;
  for (int i = 0; i < 2500; ++i) {
    state = state * 1664525 + 1013904223;
    text += std::vector<std::string>{"ka", "lo", "mi", "tu", " ", "\n"}[(state >> 16) % 6];
  }
  return text;
}

class DrawnText : public testing::Test {
 protected:
  DrawnText() { put_text(text_file(), drawn_text()); }

  std::string text_file() const { return (folder_ / "text.txt").string(); }

  std::unique_ptr<Trainer> trainer(const Recipe& of, std::int64_t workers, int threads = 1,
                                   const std::string& backend = law_backend()) const {
    const RunData data = load_data(of, "");
    return std::make_unique<Trainer>(
        of, model_of(of), data.train, data.held_out,
        Placement{.workers = workers, .threads = threads, .backend = backend});
  }

  TestFolder folder_;
};

}  // namespace podium
