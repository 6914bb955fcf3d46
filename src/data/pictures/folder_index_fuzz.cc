// libFuzzer target: any bytes as the index of a folder of pictures. The reader throws UserError, or
// returns an index whose text reads back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "data/pictures/folder_index.h"

namespace {

void read(std::string_view text) {
  try {
    const podium::FolderIndex index = podium::parse_index(text, "input");
    for (std::int64_t i = 0; i < index.count(); ++i)
      if (index.name(i).size() > text.size()) std::abort();
    const std::string again = podium::index_text(index);
    if (podium::index_text(podium::parse_index(again, "again")) != again) std::abort();
  } catch (const podium::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  read(text);
  // No random bytes have the right checksum: as if it stood below them.
  const std::string whole = "podium index 1\n" + text;
  read(whole + "end " +
       podium::hash_text(podium::hash_bytes(
           {reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size()})) +
       "\n");
  return 0;
}
