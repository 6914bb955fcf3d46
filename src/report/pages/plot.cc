#include "report/pages/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/pages/html.h"

namespace podium {
namespace {

constexpr double kTop = 44, kBelowAxis = 52, kLegendRow = 20;

struct Layout {
  double width, height;  // of the whole; of the plot alone
  double left, right;    // margins
  int ticks_across;
  std::size_t most_letters;  // of a name
};
constexpr Layout kWide = {820, 360, 64, 30, 8, 96}, kHalf = {600, 300, 64, 30, 6, 60},
                 kNarrow = {380, 230, 60, 28, 4, 40};

// In the middle, since runs often begin and end alike.
std::string shortened(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  const auto is_inside = [&](std::size_t at) {  // of a letter of several bytes
    return at < name.size() && (static_cast<unsigned char>(name[at]) & 0xC0) == 0x80;
  };
  std::size_t end = most / 3, begin = name.size() - (most - most / 3 - 1);
  while (is_inside(end)) --end;
  while (is_inside(begin)) ++begin;
  return name.substr(0, end) + "\u2026" + name.substr(begin);
}

// Colours that people who see colours differently tell apart (Okabe and Ito), dark enough on white
// and bright enough on black.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"};
// Lines beyond the last colour are dashed.
constexpr const char* kDashes[] = {"", "7 4", "2 3", "9 3 2 3"};

// A text of one line.
std::string escaped(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return html_text(text);
}

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
  // One that some axis can show.
  Extent shown() const {
    if (!(low <= high)) return {0, 1};
    if (low < high) return *this;
    const double half = low == 0 ? 1 : std::abs(low) / 2;
    return {low - half, low + half};
  }
};

// Beyond this no axis has room for the numbers, and differences overflow.
constexpr double kMost = 1e100;

bool finite(const std::pair<double, double>& point) {
  return std::abs(point.first) <= kMost && std::abs(point.second) <= kMost;  // false for NaN
}

// A tick's number, with the digits that its neighbours need.
std::string number_text(double value, double step) {
  if (step >= 1e9) return fmt::format("{:.6g}", value);
  const int digits = static_cast<int>(std::clamp(-std::floor(std::log10(step) + 1e-9), 0.0, 9.0));
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, digits);
}

// An axis and where its values lie on the page.
struct Axis {
  std::vector<double> ticks;
  double from, to;

  double at(double value) const {
    return from + (to - from) * (value - ticks.front()) / (ticks.back() - ticks.front());
  }
  std::string text(double tick) const { return number_text(tick, ticks[1] - ticks[0]); }
};

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  const double raw = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string svg_of(const Plot& plot, PlotWidth width) {
  const Layout& layout = width == PlotWidth::kWide   ? kWide
                         : width == PlotWidth::kHalf ? kHalf
                                                     : kNarrow;
  Extent across, up;
  for (const PlotLine& line : plot.lines) {
    for (const auto& point : line.points) {
      if (finite(point)) across.take(point.first), up.take(point.second);
    }
  }
  across = across.shown(), up = up.shown();
  const double bottom = kTop + layout.height;
  const Axis y{round_ticks(up.low, up.high, 6), bottom, kTop};
  std::size_t longest = 0;
  for (const double tick : y.ticks) longest = std::max(longest, y.text(tick).size());
  // The axis' title stands beside its numbers.
  const double left = std::max(layout.left, 38 + 7.5 * static_cast<double>(longest));
  const Axis x{round_ticks(across.low, across.high, layout.ticks_across), left,
               layout.width - layout.right};
  const double height =
      bottom + kBelowAxis + kLegendRow * static_cast<double>(plot.lines.size()) + 8;

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" aria-label=\"{2}\">\n"
      "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#ffffff\"/>\n"
      "<g font-family=\"system-ui,sans-serif\" font-size=\"13\" fill=\"#24292f\">\n"
      "<text x=\"{3:.0f}\" y=\"24\" font-size=\"16\" font-weight=\"600\">{2}</text>\n",
      layout.width, height, escaped(plot.title), left);
  for (const double tick : y.ticks) {
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#d0d7de\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        left, y.at(tick), layout.width - layout.right, left - 8, y.at(tick) + 4.5, y.text(tick));
  }
  for (const double tick : x.ticks) {
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}v5\" stroke=\"#57606a\"/>"
        "<text x=\"{0:.1f}\" y=\"{2:.1f}\" text-anchor=\"middle\">{3}</text>\n",
        x.at(tick), bottom, bottom + 19, x.text(tick));
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n"
      "<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (left + layout.width - layout.right) / 2, bottom + 38, escaped(plot.x_title),
      kTop + layout.height / 2, escaped(plot.y_title));

  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const PlotLine& line = plot.lines[i];
    const std::string stroke = fmt::format(
        "stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"",
        kColours[i % std::size(kColours)], kDashes[i / std::size(kColours) % std::size(kDashes)]);
    std::string path, last = "no values", mark;
    for (const auto& point : line.points) {
      if (!finite(point)) continue;
      // A path of one point has no length: it would not be seen.
      mark = path.empty()
                 ? fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n",
                               x.at(point.first), y.at(point.second),
                               kColours[i % std::size(kColours)])
                 : "";
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x.at(point.first),
                          y.at(point.second));
      last = std::abs(point.second) >= 1e4 && std::abs(point.second) < 1e9
                 ? fmt::format("{:.0f}{}", point.second, plot.unit)
                 : fmt::format("{:.4g}{}", point.second, plot.unit);
    }
    const double row = bottom + kBelowAxis + kLegendRow * static_cast<double>(i) + 8;
    if (!path.empty())
      svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", path,
                         stroke);
    svg += mark;
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}h28\" {}/><text x=\"{:.1f}\" y=\"{:.1f}\">{}: {}</text>\n", left,
        row, stroke, left + 36, row + 4.5, escaped(shortened(line.name, layout.most_letters)),
        last);
  }
  return svg + "</g>\n</svg>\n";
}

}  // namespace podium
