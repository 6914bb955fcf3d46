#include "report/pages/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json_text.h"
#include "base/words.h"

namespace podium {
namespace {

// Colours: ink and red have a contrast of at least 4.5 on their grounds.
constexpr const char* kStyle = R"(
:root{--ground:#ffffff;--card:#f6f8fa;--ink:#1f2328;--soft:#59636e;--line:#d0d7de;--bad:#b3261e}
@media (prefers-color-scheme:dark){
:root{--ground:#0d1117;--card:#161b22;--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--bad:#ff8178}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:72rem;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:1.6rem 0 .4rem}
p.lead{font-size:1.1rem;margin:.4rem 0}.soft{color:var(--soft)}
.bad,.bad td{color:var(--bad);font-weight:600}
.wide{overflow-x:auto;margin:.4rem 0;border:1px solid var(--line);border-radius:6px}
.plot{background:var(--card)}
@media (min-width:74rem){
.plot{display:inline-block;width:calc(50% - .7rem);margin-right:.4rem;vertical-align:top}}
@media (prefers-color-scheme:dark){
.plot path[stroke-width],.plot circle{filter:brightness(1.3)}}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
tr:last-child td{border-bottom:0}
th{background:var(--card);cursor:pointer;user-select:none;vertical-align:bottom}
th[aria-sort=ascending]::after{content:" \2191"}th[aria-sort=descending]::after{content:" \2193"}
td:first-child,th:first-child{position:sticky;left:0;background:var(--ground)}
th:first-child{background:var(--card)}
td.n,th.n{text-align:right}
tr.text td{white-space:normal;min-width:9rem}
pre{background:var(--card);padding:.6rem;border-radius:6px;overflow-x:auto;font-size:.85rem}
svg{display:block;width:100%;max-width:44rem;height:auto}
svg.narrow{display:none;max-width:30rem}
img{image-rendering:pixelated}
figure{display:inline-block;margin:.3rem;text-align:center;font-size:.8rem}
@media screen and (max-width:40rem){
svg.broad{display:none}svg.narrow{display:block}
td.long{min-width:9rem;white-space:normal;overflow-wrap:break-word}}
@media print{body{max-width:none;font-size:12px}.wide{overflow:visible;border:0}th{cursor:auto}
table{font-size:9px}th,td{white-space:normal;padding:.1rem .25rem}td.n{white-space:nowrap}
td:first-child,th:first-child{position:static}
h2{break-after:avoid}pre{white-space:pre-wrap}.plot,figure,tr{break-inside:avoid}
.plot{display:inline-block;width:48%;vertical-align:top}}
@page{size:landscape;margin:10mm}
)";

constexpr const char* kScript = R"(
function number(s){return /^[-+]?[\d.,]+(e[-+]?\d+)?%?$/.test(s)?parseFloat(s.replace(/,/g,'')):NaN}
document.querySelectorAll('table').forEach(function(t){
var heads=t.querySelectorAll('th');heads.forEach(function(h,c){
function sort(){var down=h.getAttribute('aria-sort')=='ascending',b=t.tBodies[0],
r=Array.from(b.rows);
r.sort(function(x,y){var p=x.cells[c].textContent,q=y.cells[c].textContent,m=number(p),n=number(q);
if((p=='-')!=(q=='-'))return p=='-'?1:-1;
return (down?-1:1)*(isNaN(m)||isNaN(n)?p.localeCompare(q,'en',{numeric:true}):m-n)});
heads.forEach(function(o){o.removeAttribute('aria-sort')});
h.setAttribute('aria-sort',down?'descending':'ascending');r.forEach(function(x){b.appendChild(x)})}
h.tabIndex=0;h.addEventListener('click',sort);
h.addEventListener('keydown',function(e){if(e.key=='Enter')sort()})})});
)";

// Whole, so that "2 workers" is none.
bool is_number(const std::string& cell) {
  return cell == "-" ||
         (!cell.empty() && cell.find_first_not_of("0123456789.,-+e") == std::string::npos);
}

}  // namespace

std::string html_text(const std::string& text) {
  const auto unicode = nlohmann::json::parse(json_text(nlohmann::json(text))).get<std::string>();
  std::string result;
  for (const char c : unicode) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\n': result += '\n'; break;
      default: result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string html_number(double value, int significant) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e15 || size < 1e-6)) return fmt::format("{:.3e}", value);
  const int whole = size >= 1  ? static_cast<int>(std::floor(std::log10(size))) + 1
                    : size > 0 ? static_cast<int>(std::floor(std::log10(size))) + 1
                               : 1;
  return fmt::format("{:.{}f}", value, std::max(0, significant - whole));
}

HtmlTable::HtmlTable(std::vector<std::string> heads) : heads_(std::move(heads)) {}

void HtmlTable::add(const std::vector<std::string>& cells, const std::string& mark) {
  rows_.push_back({cells, mark});
}

std::string HtmlTable::html() const {
  constexpr std::size_t kLong = 12;  // letters of a first cell that may break on a phone
  std::vector<bool> numbers(heads_.size(), !rows_.empty());
  for (const Row& row : rows_)
    for (std::size_t i = 0; i < std::min(row.cells.size(), numbers.size()); ++i)
      numbers[i] = numbers[i] && is_number(row.cells[i]);
  std::string text = "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t i = 0; i < heads_.size(); ++i)
    text += fmt::format("<th{} title=\"click to sort\">{}</th>", numbers[i] ? " class=\"n\"" : "",
                        html_text(heads_[i]));
  text += "</tr></thead><tbody>\n";
  for (const auto& [cells, mark] : rows_) {
    text += mark.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", mark);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const char* kind = i < numbers.size() && numbers[i]    ? " class=\"n\""
                         : i == 0 && cells[i].size() > kLong ? " class=\"long\""
                                                             : "";
      std::string cell = html_text(cells[i]);
      if (i == 0 && cells[i].size() > kLong) cell = replaced(std::move(cell), "_", "_<wbr>");
      text += fmt::format("<td{}>{}</td>", kind, cell);
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

namespace {

std::string svg_for_page(const Plot& plot, PlotWidth width, const char* mark) {
  std::string svg = svg_of(plot, width);
  svg.insert(std::string_view("<svg").size(), fmt::format(" class=\"{}\"", mark));
  svg = replaced(std::move(svg), "fill=\"#ffffff\"", "style=\"fill:var(--card)\"");
  svg = replaced(std::move(svg), "fill=\"#24292f\"", "style=\"fill:var(--ink)\"");
  svg = replaced(std::move(svg), "stroke=\"#d0d7de\"", "style=\"stroke:var(--line)\"");
  svg = replaced(std::move(svg), "stroke=\"#57606a\"", "style=\"stroke:var(--soft)\"");
  return svg;
}

}  // namespace

std::string html_plot(const Plot& plot) {
  constexpr std::size_t kMostNarrow = 200;  // points that can be told apart on a phone
  Plot narrow = plot;
  for (PlotLine& line : narrow.lines) line.points = thinned(line.points, kMostNarrow);
  return "<div class=\"wide plot\">" + svg_for_page(plot, PlotWidth::kHalf, "broad") +
         svg_for_page(narrow, PlotWidth::kNarrow, "narrow") + "</div>\n";
}

std::string html_page(const std::string& title, const std::string& body, int refresh_seconds) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n{}"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body>\n{}\n<script>{}</script>\n</body></"
      "html>\n",
      refresh_seconds > 0
          ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", refresh_seconds)
          : "",
      html_text(title), kStyle, body, kScript);
}

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t most) {
  if (points.size() <= most || most == 0) return points;
  std::vector<std::pair<double, double>> result;
  result.reserve(most);
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t k = begin; k < end; ++k)
      if (std::isfinite(points[k].second)) sum += points[k].second, ++count;
    if (count > 0) result.emplace_back(points[end - 1].first, sum / static_cast<double>(count));
  }
  return result;
}

}  // namespace podium
