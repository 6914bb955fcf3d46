#include "train/run_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/json_text.h"
#include "base/log.h"
#include "train/recipe.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFlushBytes = std::size_t{1} << 16;
constexpr std::chrono::milliseconds kFlushInterval{1000};
constexpr std::string_view kLinePrefix = "{\"step\": ";
constexpr std::string_view kRecipeFile = "recipe.toml";
// What belongs to a run; anything else in its folder is the user's own and stays where it is.
// The checkpoints first and the recipe last: a move that is cut short leaves no checkpoint that a
// run of another recipe could take for its own.
constexpr std::array<std::string_view, 7> kParts = {
    "checkpoints", "environment.json", "hashes.jsonl", "metrics.jsonl",
    "tensorboard", "resolved.txt",     kRecipeFile};

// The step of a whole line; nothing for a torn or foreign one.
std::optional<std::int64_t> step_of_line(std::string_view line) {
  if (!line.starts_with(kLinePrefix) || !line.ends_with('}')) return std::nullopt;
  std::int64_t step = 0;
  const auto [rest, error] =
      std::from_chars(line.data() + kLinePrefix.size(), line.data() + line.size(), step);
  if (error != std::errc() || (*rest != ',' && *rest != '}')) return std::nullopt;
  return step;
}

void append_number(std::string& text, double value) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  PODIUM_CHECK(error == std::errc());
  text.append(digits.data(), end);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The process that holds a lock, as far as its file says: a number, or 0 where it says nothing yet
// or names a process that is gone.
std::int64_t holder_of(const fs::path& lock_file, std::string& command) {
  std::int64_t pid = 0;
  const std::string text = read_text(lock_file).value_or("");
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || pid <= 0) return 0;
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return 0;
  // Of no size that a stat would say.
  std::ifstream(cat("/proc/", pid, "/comm")) >> command;
  return pid;
}

}  // namespace

JsonLines::JsonLines(fs::path path)
    : path_(std::move(path)), flushed_(std::chrono::steady_clock::now()) {}

void JsonLines::append(std::string_view line) {
  buffer_.append(line).push_back('\n');
  if (buffer_.size() >= kFlushBytes ||
      std::chrono::steady_clock::now() - flushed_ >= kFlushInterval) {
    flush(false);
  }
}

void JsonLines::flush(bool sync) {
  flushed_ = std::chrono::steady_clock::now();
  if (!file_.is_open()) {
    if (buffer_.empty()) return;
    file_ = OutputFile(path_, OutputFile::Mode::kAppend);
  }
  if (!buffer_.empty()) {
    // Dropped even if writing fails: a second try would tear the file in its middle.
    const std::string text = std::exchange(buffer_, {});
    file_.write(text);
    buffer_.reserve(text.capacity());
  }
  if (sync) file_.sync();
}

bool JsonLines::truncate_after(std::int64_t step) {
  buffer_.clear();
  file_ = OutputFile();
  const std::optional<std::string> text = read_text(path_, std::uint64_t{1} << 36);
  if (!text) return true;
  std::size_t end = 0;
  bool readable = true;
  while (end < text->size()) {
    const std::size_t newline = text->find('\n', end);
    if (newline == std::string::npos) break;  // torn
    const auto line_step = step_of_line(std::string_view(*text).substr(end, newline - end));
    readable = line_step.has_value() || newline + 1 == text->size();
    if (!line_step || *line_step > step) break;
    end = newline + 1;
  }
  if (end == text->size()) return true;
  if (::truncate(path_.c_str(), static_cast<off_t>(end)) != 0)
    throw_io_error(path_, "shorten", errno);
  file_ = OutputFile(path_, OutputFile::Mode::kAppend);
  file_.sync();
  return readable;
}

RunFolder::RunFolder(fs::path dir)
    : dir_(std::move(dir)), hashes_(dir_ / "hashes.jsonl"), metrics_(dir_ / "metrics.jsonl") {
  make_folders(dir_);
  lock();
  clean_checkpoints(dir_);
  remove_half_written();
}

// What replace_text leaves where the process is killed.
void RunFolder::remove_half_written() {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir_, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const std::string_view part : kParts)
      if (name.starts_with(cat(part, ".writing-"))) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove(leftover, ignored);
}

RunFolder::~RunFolder() {
  try {
    flush();
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, error.what());
  }
  ::close(lock_);  // gives the lock back; the file stays, for the next one to lock
}

void RunFolder::lock() {
  const fs::path file = dir_ / ".lock";
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) throw_io_error(dir_, "write into this folder", errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(lock_);
    if (error != EWOULDBLOCK) throw_io_error(file, "lock", error);
    std::string command;
    std::int64_t pid = 0;
    // The holder may be just about to write its number.
    for (int i = 0; i < 20 && pid == 0; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      pid = holder_of(file, command);
    }
    while (!command.empty() && command.back() == '\n') command.pop_back();
    throw UserError(cat(dir_.string(), ": in use by ",
                        pid != 0 ? cat("process ", pid) : std::string("another process"),
                        command.empty() ? std::string() : cat(" (", command, ")"),
                        "; wait until it ends or choose another folder with --out"),
                    ExitCode::kData);
  }
  const std::string text = cat(::getpid(), "\n");
  if (::ftruncate(lock_, 0) != 0 ||
      ::pwrite(lock_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    ::close(lock_);
    throw_io_error(file, "write", error);
  }
}

std::optional<std::string> RunFolder::recipe() const { return read_text(dir_ / kRecipeFile); }

void RunFolder::adopt_recipe(std::string_view text) {
  const std::optional<std::string> own = recipe();
  if (!own) {
    replace_text(dir_ / kRecipeFile, text);
    return;
  }
  PODIUM_REQUIRE(
      *own == text || resolved_anew(*own) == text, ExitCode::kUsage, (dir_ / kRecipeFile).string(),
      ": this folder holds a run of another recipe; choose another folder with --out, or "
      "begin anew with --fresh. The difference (- the folder's, + yours):\n",
      line_difference(*own, text));
}

void RunFolder::start_afresh() {
  hashes_ = JsonLines(dir_ / "hashes.jsonl");
  metrics_ = JsonLines(dir_ / "metrics.jsonl");
  if (std::none_of(kParts.begin(), kParts.end(), [&](auto part) { return exists(dir_ / part); }))
    return;
  fs::path to;
  for (int i = 1; to.empty() || fs::exists(to); ++i) to = dir_ / cat("previous-", i);
  make_folders(to);
  for (const std::string_view part : kParts) {
    if (::rename((dir_ / part).c_str(), (to / part).c_str()) != 0 && errno != ENOENT)
      throw_io_error(dir_ / part, "move", errno);
  }
  sync_folder(dir_);
}

void RunFolder::resume(const std::function<void(const Checkpoint&)>& restore,
                       const std::function<void(const std::string&)>& warn) {
  const std::optional<Checkpoint> checkpoint = load_latest(dir_, warn, Damaged::kSetAside);
  if (checkpoint) restore(*checkpoint);
  const std::int64_t step = checkpoint ? checkpoint->step : 0;
  for (JsonLines* lines : {&hashes_, &metrics_}) {
    if (!lines->truncate_after(step) && warn) {
      warn(cat(lines->path().string(),
               ": a damaged line was found; it and those after it were removed"));
    }
  }
}

void RunFolder::append_hash(std::int64_t step, std::uint64_t hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<char, 80> line;
  char* at = std::copy(kLinePrefix.begin(), kLinePrefix.end(), line.data());
  at = std::to_chars(at, line.data() + line.size(), step).ptr;
  constexpr std::string_view kMiddle = ", \"hash\": \"";
  at = std::copy(kMiddle.begin(), kMiddle.end(), at);
  for (int shift = 60; shift >= 0; shift -= 4) *at++ = kDigits[(hash >> shift) & 15];
  *at++ = '"';
  *at++ = '}';
  hashes_.append({line.data(), static_cast<std::size_t>(at - line.data())});
}

void RunFolder::append_metrics(std::int64_t step, std::span<const MetricField> fields) {
  std::string line = cat(kLinePrefix, step);
  for (const MetricField& field : fields) {
    line += cat(", ", json_text(nlohmann::json(field.name)), ": ");
    if (const auto* number = std::get_if<double>(&field.value)) {
      append_number(line, *number);
    } else if (const auto* whole = std::get_if<std::int64_t>(&field.value)) {
      line += std::to_string(*whole);
    } else {
      line += json_text(nlohmann::json(std::get<std::string_view>(field.value)));
    }
  }
  line += '}';
  metrics_.append(line);
}

void RunFolder::flush() {
  hashes_.flush(false);
  metrics_.flush(false);
}

void RunFolder::save(const Checkpoint& checkpoint, int keep) {
  hashes_.flush(true);
  metrics_.flush(true);
  write_checkpoint(dir_, checkpoint, keep);
}

void require_run(const fs::path& run) {
  const fs::path recipe = run / kRecipeFile;
  std::error_code error;
  const bool there = fs::is_regular_file(recipe, error);
  if (error == std::errc::permission_denied) throw_io_error(recipe, "open", error.value());
  PODIUM_REQUIRE(there, ExitCode::kData, run.string(),
                 " is not a run's folder: it has no recipe.toml; `podium train RECIPE --out DIR` "
                 "makes one");
}

void require_same_recipe(const Checkpoint& checkpoint, const std::filesystem::path& dir) {
  const auto theirs = checkpoint.metadata.find("recipe");
  const std::optional<std::string> own = read_text(dir / kRecipeFile);
  if (theirs == checkpoint.metadata.end() || !own || theirs->second == *own) return;
  // The folder's may be from before this Podium had some keys.
  if (resolved_anew(theirs->second) == resolved_anew(*own)) return;
  throw UserError(cat((dir / "checkpoints").string(), ": the checkpoint of step ", checkpoint.step,
                      " is of another recipe than ", (dir / kRecipeFile).string(),
                      "; move it away, or train with --fresh or another --out folder. The "
                      "difference (- the checkpoint's, + the folder's):\n",
                      line_difference(theirs->second, *own)),
                  ExitCode::kData);
}

Checkpoint last_checkpoint(const std::filesystem::path& run) {
  require_run(run);
  std::optional<Checkpoint> checkpoint =
      load_latest(run, [](const std::string& line) { log(LogLevel::kWarning, line); });
  PODIUM_REQUIRE(checkpoint.has_value(), ExitCode::kData, run.string(),
                 " has no checkpoint yet; `podium train` with this --out makes one");
  require_same_recipe(*checkpoint, run);
  return std::move(*checkpoint);
}

std::string line_difference(std::string_view before, std::string_view after) {
  const std::vector<std::string_view> a = lines_of(before), b = lines_of(after);
  // common[i][j]: the longest common subsequence of a[i..] and b[j..]. Recipes are short.
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string text;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      text += cat("- ", a[i++], "\n");
    } else {
      text += cat("+ ", b[j++], "\n");
    }
  }
  return text;
}

}  // namespace podium
