// Index files: what is known of pictures that lie in files, as lines of text, kept in the user's
// cache folder. The first line says what is indexed and in which form; the last one is a checksum.
// What is in them is said in data/pictures/shards/picture_index.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/stop.h"

namespace podium {

struct IndexOptions {
  bool fresh = false;  // make it, even if there is a good one in the cache
  // Of a folder, look at each file before an index is taken for good: what changes in its place
  // leaves no trace in its folder's time.
  bool check_files = false;
  StopToken stop = {};
  std::function<void(std::int64_t pictures)> progress = {};  // called now and then
  // Likewise later, where pictures are read or decoded: how many of how many; by one thread at a
  // time.
  std::function<void(const char* what, std::int64_t done, std::int64_t all)> reading = {};
};

// Where the index of `what` is kept; empty: there is no cache folder.
std::string index_file_of(const std::string& what);

// An index that cannot be kept is made again next time.
void keep_index_text(const std::string& path, const std::string& text);

// Names hold any byte but 0; a line holds no newline.
void append_escaped(std::string& text, std::string_view name);
// The text with its last line.
std::string with_checksum(std::string text);

// Reads the lines of an index file. Each of its functions throws UserError(kData) for a text that
// is no whole index.
class IndexLines {
 public:
  // `name` must outlive it. `first` is the first line, with its end.
  IndexLines(std::string_view text, const std::string& name, std::string_view first);

  [[noreturn]] void fail(const std::string& what) const;
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }
  // A count of things of which each has a line.
  void require_count(std::int64_t count) const;
  std::string_view line();
  // The number at the beginning of a line, with the blank after it.
  std::int64_t number(std::string_view& line) const;
  // Sixteen hexadecimal digits at the beginning of a line, with the blank after them.
  std::uint64_t hash(std::string_view& line) const;
  // What append_escaped() was given.
  std::string escaped(std::string_view line) const;
  // That the next line is the last one.
  void require_end();

 private:
  std::string_view text_;
  const std::string& name_;
  std::int64_t line_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace podium
