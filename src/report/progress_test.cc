#include "report/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

ProgressState sample_state() {
  ProgressState state;
  state.recipe = "mnist";
  state.step = 3431;
  state.steps = 5640;
  state.epoch = 14.6;
  state.epochs = 24;
  state.loss = 0.04123;
  state.metric = 0.99125;
  state.test_metric = 0.9931;
  state.steps_per_second = 412.3;
  state.items_per_second = 105548.8;
  state.seconds_left = 5.4;
  state.input_wait_percent = 0.31;
  state.loss_history = {2.3, 1.0, 0.4, 0.2, 0.1, 0.08, 0.06, 0.04};
  return state;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Render, a_block_of_three_lines) {
  EXPECT_EQ(joined(render(sample_state(), 100)),
            "mnist  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━─────────────────── 60%   6s left\n"
            "loss 0.0412 █▇▅▄▂▂▁▁   train 99.12%   test 99.31%\n"
            "step 3431/5640   epoch 14.6/24   412 steps/s   105,549 images/s   input wait 0.3%\n");
}

TEST(Render, in_ascii_where_the_locale_has_no_more) {
  const std::string text = joined(render(sample_state(), 100, /*unicode=*/false));
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= 32 && c < 127); }));
  EXPECT_NE(text.find("[####"), std::string::npos) << text;
}

TEST(Render, no_line_is_wider_than_the_terminal) {
  ProgressState state = sample_state();
  for (const double scale : {1.0, 1e-9, 1e9}) {
    state.loss = 0.04 * scale;
    state.items_per_second = 1e5 * scale;
    state.seconds_left = 100 * scale;
    for (const bool unicode : {true, false}) {
      for (int width = 8; width < 200; ++width) {
        for (const std::string& line : render(state, width, unicode)) {
          ASSERT_LE(columns(line), width) << line;
          ASSERT_FALSE(line.empty());
        }
      }
    }
  }
  EXPECT_FALSE(render(state, 0).empty());
}

TEST(Render, narrow_terminals_get_more_lines_and_the_same_facts) {
  const std::string text = joined(render(sample_state(), 30));
  for (const char* fact : {"mnist", "60%", "6s left", "loss 0.0412", "test 99.31%", "412 steps/s",
                           "105,549 images/s", "input wait 0.3%", "step 3431/5640"})
    EXPECT_NE(text.find(fact), std::string::npos) << fact << "\n" << text;
}

TEST(Render, what_is_unknown_is_not_shown) {
  ProgressState state;
  state.recipe = "mnist";
  state.steps = 100;
  const std::string text = joined(render(state, 80));
  for (const char* absent : {"nan", "loss", "train", "test", "left", "wait", "/s"})
    EXPECT_EQ(text.find(absent), std::string::npos) << absent << "\n" << text;
}

TEST(Render, an_accuracy_below_one_never_reads_100_percent) {
  ProgressState state = sample_state();
  state.test_metric = 0.99999;
  EXPECT_NE(render_line(state).find("test 99.99%"), std::string::npos);
  state.test_metric = 0.9942;  // a decimal that binary rounds down
  EXPECT_NE(render_line(state).find("test 99.42%"), std::string::npos);
  state.test_metric = 1;
  EXPECT_NE(render_line(state).find("test 100.00%"), std::string::npos);
}

// A step that was not evaluated must not be read as having the accuracy beside it.
TEST(Render, an_accuracy_of_an_earlier_step_is_shown_with_its_epoch) {
  ProgressState state = sample_state();
  state.test_is_current = false;
  state.test_epoch = 14;
  EXPECT_NE(joined(render(state, 100)).find("test 99.31% (epoch 14.0)"), std::string::npos);
  EXPECT_NE(render_line(state).find("  test 99.31% (epoch 14.0)  "), std::string::npos);
  state.held_out = "held out";
  EXPECT_NE(render_line(state).find("  held out 99.31% (epoch 14.0)  "), std::string::npos);
}

TEST(Render, the_bar_is_full_only_at_the_end) {
  ProgressState state = sample_state();
  state.step = state.steps - 1;
  EXPECT_NE(joined(render(state, 60)).find("╸ 99%"), std::string::npos)
      << joined(render(state, 60));
  state.step = state.steps;
  EXPECT_NE(joined(render(state, 60)).find("━ 100%"), std::string::npos);
}

TEST(Render, a_plain_line_holds_all) {
  EXPECT_EQ(render_line(sample_state()),
            "mnist  step 3431/5640  epoch 14.6/24  loss 0.0412  train 99.12%  test 99.31%  412 "
            "steps/s  105,549 images/s  input wait 0.3%  6s left");
}

TEST(Render, a_cost_is_shown_with_the_date_of_its_price) {
  ProgressState state = sample_state();
  state.usd = 0.01234;
  state.price = "gcp/tpu-v2-8 of 2018-04";
  EXPECT_CONTAINS(render_line(state), "cost 0.0123 USD (gcp/tpu-v2-8 of 2018-04)");
  EXPECT_CONTAINS(joined(render(state, 100)), "cost 0.0123 USD (gcp/tpu-v2-8 of 2018-04)");
}

TEST(Duration, is_short_and_exact_enough) {
  EXPECT_EQ(duration_text(0), "0s");
  EXPECT_EQ(duration_text(0.2), "1s");
  EXPECT_EQ(duration_text(59.5), "1m 00s");
  EXPECT_EQ(duration_text(185), "3m 05s");
  EXPECT_EQ(duration_text(8040), "2h 14m");
  EXPECT_EQ(duration_text(3 * 86400 + 4 * 3600), "3d 04h");
  EXPECT_EQ(duration_text(kUnknownValue), "?");
}

TEST(Sparkline, falls_with_the_loss) {
  EXPECT_EQ(sparkline({8, 4, 2, 1}, 10), "█▆▃▁");
  EXPECT_EQ(sparkline({1, 1}, 10), "▁▁");
  EXPECT_EQ(sparkline({1}, 10), "");
  EXPECT_EQ(sparkline({3, 2, 1, 0}, 4), "█▆▃▁");  // not all positive: linear
  EXPECT_EQ(columns(sparkline(std::vector<double>(1000, 1.0), 20)), 20);
}

// As much of a terminal as the block needs: rows of text, a cursor, four sequences.
class Screen {
 public:
  explicit Screen(const std::string& output = "") : rows_(1) { feed(output); }
  void feed(const std::string& output) {
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (output[i] == '\n') {
        ++row_, column_ = 0;
        if (row_ == rows_.size()) rows_.emplace_back();
      } else if (output[i] == '\r') {
        column_ = 0;
      } else if (output[i] == '\x1b') {
        std::size_t end = i + 2;
        while (std::isdigit(static_cast<unsigned char>(output[end])) != 0) ++end;
        apply(output[end], std::atoi(output.c_str() + i + 2));
        i = end;
      } else {
        rows_[row_].resize(std::max(rows_[row_].size(), column_ + 1), ' ');
        rows_[row_][column_++] = output[i];
      }
    }
  }
  // As a terminal that becomes narrower: rows that no longer fit are wrapped.
  void narrow_to(std::size_t width) {
    std::vector<std::string> wrapped;
    std::size_t cursor = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (row == row_) cursor = wrapped.size();
      for (std::size_t at = 0; at == 0 || at < rows_[row].size(); at += width)
        wrapped.push_back(rows_[row].substr(at, width));
    }
    rows_ = std::move(wrapped);
    row_ = cursor;
  }
  const std::vector<std::string>& rows() const { return rows_; }
  std::size_t cursor_row() const { return row_; }

 private:
  void apply(char command, int count) {
    switch (command) {
      case 'A':
        ASSERT_LE(static_cast<std::size_t>(count), row_);
        row_ -= static_cast<std::size_t>(count);
        break;
      case 'K': rows_[row_].resize(std::min(rows_[row_].size(), column_)); break;
      case 'J':
        rows_[row_].resize(std::min(rows_[row_].size(), column_));
        for (std::size_t row = row_ + 1; row < rows_.size(); ++row) rows_[row].clear();
        break;
      default: FAIL() << "sequence " << command;
    }
  }
  std::vector<std::string> rows_;
  std::size_t row_ = 0, column_ = 0;
};

// A Progress that writes into a file.
class ProgressRun {
 public:
  ProgressRun(bool live, double seconds, int width = 100)
      : descriptor_(::open((folder_ / "out").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)),
        progress_({.descriptor = descriptor_,
                   .live = live,
                   .unicode = false,
                   .frame_seconds = seconds,
                   .line_seconds = seconds,
                   .width = [this] { return width_; }}),
        width_(width) {}
  ~ProgressRun() { ::close(descriptor_); }
  Progress& operator*() { return progress_; }
  Progress* operator->() { return &progress_; }
  void set_width(int width) { width_ = width; }
  std::string output() const { return file_text(folder_ / "out"); }

 private:
  TestFolder folder_;
  int descriptor_;
  Progress progress_;
  int width_;
};

TEST(Progress, the_block_is_redrawn_in_place) {
  ProgressRun run(/*live=*/true, 0);
  ProgressState state = sample_state();
  for (int i = 0; i < 50; ++i) {
    state.step += 1;
    run->update(state);
  }
  const Screen screen(run.output());
  EXPECT_EQ(screen.cursor_row(), 3u);
  EXPECT_EQ(screen.rows().size(), 4u);
  EXPECT_TRUE(screen.rows()[0].starts_with("mnist  [#"));
  EXPECT_NE(screen.rows()[2].find("step 3481/5640"), std::string::npos);
  EXPECT_EQ(screen.rows()[3], "");
}

TEST(Progress, a_block_that_shrinks_leaves_nothing_behind) {
  ProgressRun run(/*live=*/true, 0, 24);
  run->update(sample_state());
  run.set_width(100);
  run->update(sample_state());
  const Screen screen(run.output());
  EXPECT_EQ(screen.cursor_row(), 3u);
  for (std::size_t row = 3; row < screen.rows().size(); ++row) EXPECT_EQ(screen.rows()[row], "");
}

TEST(Progress, a_terminal_that_becomes_narrower_keeps_no_stale_line) {
  for (const bool talk : {false, true}) {
    ProgressRun run(/*live=*/true, 0, 100);
    run->print_above("before");
    run->update(sample_state());
    const std::string first = run.output();
    Screen screen(first);
    screen.narrow_to(40);
    run.set_width(40);
    if (talk) run->print_above("a warning");
    run->update(sample_state());
    screen.feed(run.output().substr(first.size()));
    ProgressState state = sample_state();
    state.loss_history = {state.loss, state.loss};  // what the two updates left
    std::vector<std::string> expected = render(state, 39, false);
    if (talk) expected.insert(expected.begin(), "a warning");
    expected.insert(expected.begin(), "before");
    std::vector<std::string> rows = screen.rows();
    while (!rows.empty() && rows.back().empty()) rows.pop_back();
    EXPECT_EQ(rows, expected);
  }
}

TEST(Progress, talk_goes_above_the_block) {
  ProgressRun run(/*live=*/true, 0);
  run->print_above("before");
  run->update(sample_state());
  run->print_above("a warning");
  run->update(sample_state());
  const Screen screen(run.output());
  EXPECT_EQ(screen.rows()[0], "before");
  EXPECT_EQ(screen.rows()[1], "a warning");
  EXPECT_TRUE(screen.rows()[2].starts_with("mnist  ["));
  EXPECT_EQ(screen.cursor_row(), 5u);
}

TEST(Progress, the_finished_block_stays) {
  ProgressRun run(/*live=*/true, 0);
  run->finish(sample_state());
  run->print_above("accuracy 99.40%");
  const Screen screen(run.output());
  EXPECT_TRUE(screen.rows()[0].starts_with("mnist  ["));
  EXPECT_EQ(screen.rows()[3], "accuracy 99.40%");
}

TEST(Progress, the_cursor_is_never_hidden) {
  ProgressRun run(/*live=*/true, 0);
  run->update(sample_state());
  run->finish(sample_state());
  EXPECT_EQ(run.output().find("\x1b[?"), std::string::npos);
}

TEST(Progress, frames_keep_their_distance) {
  ProgressRun run(/*live=*/false, 0.05);
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t calls = 0;
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(220)) {
    ++calls;
    if (run->due()) run->update(sample_state());
  }
  const std::string output = run.output();
  const auto lines = std::ranges::count(output, '\n');
  EXPECT_GE(lines, 2);
  EXPECT_LE(lines, 5);
  EXPECT_GT(calls, 1000);
}

TEST(Progress, a_log_gets_plain_lines_at_epochs_and_at_the_end) {
  ProgressRun run(/*live=*/false, 3600);
  run->update(sample_state());
  run->update(sample_state());      // not due
  run->epoch_done(sample_state());  // not a second later
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  run->epoch_done(sample_state());
  run->finish(sample_state());
  const std::string line = render_line(sample_state()) + "\n";
  EXPECT_EQ(run.output(), line + line + line);
}

}  // namespace
}  // namespace podium
