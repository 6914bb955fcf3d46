#include "parallel/failure_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/error.h"
#include "base/json_text.h"

namespace podium {
namespace {

constexpr char kHeard[] = "\"heard\": ";

std::string file_of(const std::string& folder) { return cat(folder, "/", kFailureFile); }

}  // namespace

void record_failure(const std::string& folder, std::int64_t step, const std::string& text,
                    int heard) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::array<char, 32> date;
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  const std::string line = cat("{\"date\": \"", date.data(), "\", \"step\": ", step,
                               ", \"failure\": ", json_quoted(text), ", ", kHeard, heard, "}\n");
  const int file = open(file_of(folder).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return;
  // One write: several ranks may append at once.
  static_cast<void>(!write(file, line.data(), line.size()));
  fsync(file);
  close(file);
}

int most_heard(const std::string& folder, std::int64_t after) {
  std::ifstream file(file_of(folder));
  file.seekg(after);
  int most = -1;
  for (std::string line; std::getline(file, line);) {
    if (const auto at = line.rfind(kHeard); at != std::string::npos)
      most = std::max(most, std::atoi(line.c_str() + at + sizeof kHeard - 1));
  }
  return most;
}

std::int64_t failure_bytes(const std::string& folder) {
  struct stat status = {};
  return stat(file_of(folder).c_str(), &status) == 0 ? status.st_size : 0;
}

}  // namespace podium
