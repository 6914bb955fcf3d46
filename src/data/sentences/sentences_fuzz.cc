// libFuzzer target: any bytes as sentences of each kind. Either they are none, with words, or each
// row has a cell for each column, in UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/sentences/sentences.h"
#include "data/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  for (const char* name : {"a.txt", "a.jsonl", "a.csv"}) {
    try {
      const podium::Cells cells = podium::parse_sentences(text, name, true);
      if (std::ssize(cells.cells) != cells.rows() * cells.columns()) std::abort();
      for (std::string_view cell : cells.cells)
        while (!cell.empty()) {
          const std::size_t length = podium::utf8_length(cell);
          if (length == 0) std::abort();
          cell.remove_prefix(length);
        }
    } catch (const podium::UserError&) {
    }
  }
  return 0;
}
