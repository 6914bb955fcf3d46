// Downloads of one file over HTTP(S) (libcurl). The bytes go to TARGET.part, are checked and
// synced, and then take their name: a file that has its name is whole. A download that was cut or
// that stalled is resumed where it stopped, within a call and by the next one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace podium {

struct DownloadRequest {
  std::vector<std::string> addresses;  // of the same file; each is tried in turn
  std::string target;                  // its folder is made
  // Looks at the finished file (path of the .part) and throws UserError where it is not the right
  // one; it is then dropped, and the next address tried.
  std::function<void(const std::string& path)> check;
  // Called when the file is whole and checked, before it takes its name. What it throws ends the
  // download and keeps the .part.
  std::function<void()> ready;
  // Bytes so far, and in all (0: not known yet).
  std::function<void(std::int64_t bytes, std::int64_t total)> progress;
  // What went wrong and what is done now, before each further attempt.
  std::function<void(const std::string&)> notice;
  std::int64_t most_bytes = 0;  // a longer answer is dropped, and the next address tried; 0: any
  int attempts = 4;             // at each address, each going on where the last stopped
  double pause_seconds = 0.5;   // before the second attempt; doubled before each further one
  long connect_seconds = 15;    // until a connection stands
  // An attempt counts as stalled if no byte is received for `silent_seconds`, or fewer than
  // `slow_bytes_per_second` for `slow_seconds`. After two stalled attempts without a new byte, the
  // next address is tried.
  double silent_seconds = 30;
  double slow_seconds = 60;
  std::int64_t slow_bytes_per_second = 1024;
};

// Throws UserError(kData) that tells what happened at each address.
void download(const DownloadRequest& request);

}  // namespace podium
