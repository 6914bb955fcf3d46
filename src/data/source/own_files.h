// Files of one's own, as a recipe names them: data = "KIND:FILE"; of sounds a folder of them.
#pragma once

#include <string>

namespace podium {

struct OwnFile {
  std::string kind;      // of a recipe's `data`
  std::string content;   // "a file with a table"
  std::string several;   // what people call such data: "tables"
  std::string example;   // a file's name
  std::string held_out;  // what the share data.held_out is of
};

// The kinds that are not pictures; null: `data` names none.
const OwnFile* own_file(const std::string& data);

// Where the file of this kind lies. Throws UserError(kData), which lists the places searched, if
// there is none, or a folder in its place.
std::string find_own_file(const OwnFile& own, const std::string& path, const std::string& data_dir);

}  // namespace podium
