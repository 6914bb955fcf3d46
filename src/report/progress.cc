#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/words.h"
#include "train/machine/price.h"

namespace podium {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kAsciiBlocks = {"_", ".", "-", "~", "=", "+", "*", "#"};
constexpr std::string_view kGap = "   ";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The first `width` columns.
std::string clipped(std::string_view text, int width) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i]) && ++seen > width) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

std::string rate_text(double value) {
  return value >= 100 ? with_commas(std::llrint(value))
                      : fmt::format("{:.{}f}", value, value >= 10 ? 1 : 2);
}

std::string loss_text(double loss) {
  return loss < 1000 ? fmt::format("loss {:.4f}", loss) : fmt::format("loss {:.3e}", loss);
}

double fraction_done(const ProgressState& state) {
  if (state.steps <= 0) return 0;
  return std::clamp(static_cast<double>(state.step) / static_cast<double>(state.steps), 0.0, 1.0);
}

// Rounded down: what is not done must not read 100%.
std::string done_text(double fraction) {
  return fmt::format("{:.0f}%", std::floor(fraction * 100 + 1e-9));
}

// "test 99.31%": in percent, all know that it is the accuracy; "test r2 0.9787".
std::string metric_field(const TaskWords& words, const std::string& of, double value) {
  return words.unit == "%" && words.metric == "accuracy"
             ? cat(of, " ", words.metric_text(value))
             : cat(of, " ", words.metric_name(), " ", words.metric_text(value));
}

std::string bar(double fraction, int width, bool unicode) {
  if (width < 3) return {};
  std::string text;
  if (!unicode) {
    const int full = static_cast<int>(fraction * (width - 2));
    return fmt::format("[{:#<{}}{:.<{}}]", "", full, "", width - 2 - full);
  }
  const int halves = static_cast<int>(fraction * width * 2);
  for (int i = 0; i < width; ++i)
    text += halves >= 2 * i + 2 ? "━" : halves == 2 * i + 1 ? "╸" : "─";
  return text;
}

// Puts fields side by side, as many to a line as fit.
void append_fields(std::vector<std::string>& lines, const std::vector<std::string>& fields,
                   int width) {
  std::string line;
  for (const std::string& field : fields) {
    if (field.empty()) continue;
    if (!line.empty() && columns(line) + static_cast<int>(kGap.size()) + columns(field) > width) {
      lines.push_back(clipped(line, width));
      line.clear();
    }
    if (!line.empty()) line += kGap;
    line += field;
  }
  if (!line.empty()) lines.push_back(clipped(line, width));
}

struct Fields {
  std::string step, epoch, loss, metric, test_metric, steps, items, wait, cost, left;
};

Fields fields_of(const ProgressState& state) {
  const auto if_known = [](double value, const auto& text) {
    return std::isfinite(value) ? text(value) : std::string();
  };
  Fields fields;
  fields.step = fmt::format("step {}/{}", state.step, state.steps);
  if (state.epochs > 0) fields.epoch = fmt::format("epoch {:.1f}/{:g}", state.epoch, state.epochs);
  fields.loss = if_known(state.loss, loss_text);
  fields.metric =
      if_known(state.metric, [&](double v) { return metric_field(state.words, "train", v); });
  fields.test_metric = if_known(state.test_metric, [&](double v) {
    const std::string text = metric_field(state.words, state.held_out, v);
    return state.test_is_current ? text : fmt::format("{} (epoch {:.1f})", text, state.test_epoch);
  });
  fields.steps =
      if_known(state.steps_per_second, [](double v) { return rate_text(v) + " steps/s"; });
  fields.items = if_known(state.items_per_second, [&](double v) {
    return cat(rate_text(v), " ", state.words.rate_unit());
  });
  fields.wait = if_known(state.input_wait_percent,
                         [](double v) { return fmt::format("input wait {:.1f}%", v); });
  fields.cost = if_known(
      state.usd, [&](double v) { return fmt::format("cost {} ({})", usd_text(v), state.price); });
  fields.left = if_known(state.seconds_left, [](double v) { return duration_text(v) + " left"; });
  return fields;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text = value;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

winsize window_of(int descriptor) {
  winsize window = {};
  if (::ioctl(descriptor, TIOCGWINSZ, &window) != 0) window = {};
  if (window.ws_col == 0) window.ws_col = 80;
  if (window.ws_row == 0) window.ws_row = 24;
  return window;
}

}  // namespace

int columns(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); }));
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e10) return "?";
  const auto s = static_cast<std::int64_t>(std::ceil(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d {:02}h", s / 86400, s / 3600 % 24);
}

std::string sparkline(const std::vector<double>& values, int width, bool unicode) {
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.size() < 2 || width < 1) return {};
  // Each column is the mean of its stretch.
  const std::size_t points = std::min(finite.size(), static_cast<std::size_t>(width));
  std::vector<double> heights(points);
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t begin = i * finite.size() / points, end = (i + 1) * finite.size() / points;
    for (std::size_t k = begin; k < end; ++k) heights[i] += finite[k];
    heights[i] /= static_cast<double>(end - begin);
  }
  if (std::all_of(heights.begin(), heights.end(), [](double h) { return h > 0; }))
    for (double& h : heights) h = std::log(h);
  const auto [low, high] = std::minmax_element(heights.begin(), heights.end());
  const double base = *low, range = *high - *low;
  std::string text;
  for (const double h : heights) {
    const auto level = range > 0 ? static_cast<std::size_t>((h - base) / range * 7.999) : 0;
    text += (unicode ? kBlocks : kAsciiBlocks)[std::min<std::size_t>(level, 7)];
  }
  return text;
}

std::vector<std::string> render(const ProgressState& state, int width, bool unicode) {
  width = std::max(width, 8);
  const Fields fields = fields_of(state);
  std::vector<std::string> lines;

  const std::string percent = done_text(fraction_done(state));
  const std::string left = fields.left.empty() ? "" : fmt::format("{}{}", kGap, fields.left);
  const int taken = columns(state.recipe) + 2 + 1 + columns(percent) + columns(left);
  if (width - taken >= 8) {
    const int length = std::min(width - taken, 48);
    lines.push_back(fmt::format("{}  {} {}{}", state.recipe,
                                bar(fraction_done(state), length, unicode), percent, left));
  } else {
    append_fields(lines, {state.recipe, percent, fields.left}, width);
  }

  std::string loss = fields.loss;
  const int room = std::min(32, width - columns(loss) - 1);
  if (!loss.empty() && room >= 4) {
    const std::string curve = sparkline(state.loss_history, room, unicode);
    if (!curve.empty()) loss += fmt::format(" {}", curve);
  }
  append_fields(lines, {loss, fields.metric, fields.test_metric}, width);
  append_fields(lines,
                {fields.step, fields.epoch, fields.steps, fields.items, fields.wait, fields.cost},
                width);
  return lines;
}

std::string render_line(const ProgressState& state) {
  const Fields fields = fields_of(state);
  std::string line = state.recipe;
  for (const std::string* field :
       {&fields.step, &fields.epoch, &fields.loss, &fields.metric, &fields.test_metric,
        &fields.steps, &fields.items, &fields.wait, &fields.cost, &fields.left}) {
    if (!field->empty()) line += fmt::format("  {}", *field);
  }
  return line;
}

Progress::Options Progress::for_stderr() {
  Options options;
  const char* terminal = std::getenv("TERM");
  options.live = ::isatty(2) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
  options.unicode = locale_is_utf8();
  options.width = [] { return static_cast<int>(window_of(2).ws_col); };
  options.height = [] { return static_cast<int>(window_of(2).ws_row); };
  return options;
}

Progress::Progress(Options options) : options_(std::move(options)) {}

bool Progress::due() const {
  return steady_seconds() - shown_ >=
         (options_.live ? options_.frame_seconds : options_.line_seconds);
}

void Progress::update(ProgressState state) {
  const std::lock_guard guard(mutex_);
  if (due()) draw(std::move(state));
}

void Progress::epoch_done(ProgressState state) {
  const std::lock_guard guard(mutex_);
  if (options_.live ? due() : steady_seconds() - shown_ >= std::min(1.0, options_.line_seconds))
    draw(std::move(state));
}

void Progress::finish(ProgressState state) {
  const std::lock_guard guard(mutex_);
  draw(std::move(state));
  block_.clear();  // it stays; what is drawn next begins below
}

void Progress::draw(ProgressState state) {
  shown_ = steady_seconds();
  history_.add(state.loss);
  if (!options_.live) {
    write_out(render_line(state) + "\n");
    return;
  }
  state.loss_history.assign(history_.values().begin(), history_.values().end());
  // One column is left free: a full line would make some terminals wrap.
  std::vector<std::string> lines = render(state, options_.width() - 1, options_.unicode);
  const auto most = static_cast<std::size_t>(std::max(options_.height() - 1, 1));
  if (lines.size() > most) lines.resize(most);
  std::string frame = to_block_start();
  for (const std::string& line : lines) frame += line + "\x1b[K\n";
  frame += "\x1b[J";
  block_ = std::move(lines);
  write_out(frame);
}

// Moves the cursor to the block's first row. A terminal that became narrower has wrapped the lines
// that no longer fit, so that they take more rows than there are lines.
std::string Progress::to_block_start() const {
  const int width = std::max(options_.width(), 1);
  int rows = 0;
  for (const std::string& line : block_) rows += std::max(1, (columns(line) + width - 1) / width);
  return rows == 0 ? "" : fmt::format("\x1b[{}A\r", rows);
}

void Progress::print_above(std::string_view line) {
  const std::lock_guard guard(mutex_);
  std::string text = to_block_start();
  if (!text.empty()) text += "\x1b[J";
  text += line;
  text += '\n';
  for (std::string& old : block_) {
    old = clipped(old, std::max(options_.width() - 1, 1));
    text += old + "\n";
  }
  write_out(text);
}

// One call a frame, so that a terminal shows it at once. Talk that cannot be written is lost: it
// must not end a run.
void Progress::write_out(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(options_.descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace podium
