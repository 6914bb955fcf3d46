// libFuzzer target: any bytes as a table. Either they are none, with words, or each row has a cell
// for each column, and what the rows are split into can be read back.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/table/table.h"

namespace {

void require_finite(const podium::RowSource& rows) {
  std::vector<float> features(static_cast<std::size_t>(rows.fields()[0].shape.elements()));
  std::int32_t target = 0;
  for (std::int64_t i = 0; i < rows.examples(); ++i) {
    rows.read(i, nullptr, {features.data(), &target});
    for (const float feature : features)
      if (!std::isfinite(feature)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const podium::Cells cells = text.starts_with("\x93NUMPY")
                                    ? podium::parse_npy({bytes, size}, "input")
                                    : podium::parse_csv(text, "input");
    if (std::ssize(cells.cells) != cells.rows() * cells.columns()) std::abort();
    const podium::TableParts parts = podium::parts_of(cells, {}, 0.3);
    require_finite(*parts.train);
    require_finite(*parts.held_out);
    require_finite(podium::rows_to_predict(cells, parts.train->fields()));
  } catch (const podium::UserError&) {
  }
  return 0;
}
