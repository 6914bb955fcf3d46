#include "data/source/own_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "data/datasets/dataset.h"
#include "data/pairs/pair_options.h"
#include "data/sounds/sound_options.h"
#include "data/table/table_options.h"
#include "data/text/text_options.h"

namespace podium {

const OwnFile* own_file(const std::string& data) {
  static const std::array<OwnFile, 5> kinds = {
      {{kTextData, "a file of text", "text", "BOOK.txt", "the share at its end"},
       {kTableData, "a file with a table", "tables", "ROWS.csv", "a share of the rows"},
       {kSentenceData, "a file of sentences", "sentences", "REVIEWS.csv", "a share of them"},
       {kSoundData, "a folder or archive of sounds", "sounds", "RECORDINGS", "a share of them"},
       {kPairData, "a file of sentences", "pairs", "PAIRS.tsv", "a share of them"}}};
  const auto found = std::ranges::find(kinds, data, &OwnFile::kind);
  return found == kinds.end() ? nullptr : &*found;
}

std::string find_own_file(const OwnFile& own, const std::string& path,
                          const std::string& data_dir) {
  std::error_code error;
  std::string searched;
  for (const std::string& place : places_of(path, data_dir)) {
    PODIUM_REQUIRE(own.kind == kSoundData || !std::filesystem::is_directory(place, error),
                   ExitCode::kData, place, " is a folder; name ", own.content,
                   ", as in data=", own.kind, ":", own.example);
    if (std::filesystem::exists(place, error)) return place;
    searched += cat("\n  ", place);
  }
  throw UserError(
      cat("the ", own.kind, " ", path, " was not found. Searched:", searched,
          "\nName the file: data.path=", own.example, ", or the folder that it is in: --data-dir"),
      ExitCode::kData);
}

}  // namespace podium
