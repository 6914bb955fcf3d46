#include "train/run/run_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "base/json_text.h"
#include "base/log.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "parallel/failure_record.h"
#include "train/recipe/recipe.h"
#include "train/run/run_lines.h"

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
constexpr std::array<std::string_view, 11> kParts = {
    "checkpoints",   "environment.json", kFailureFile,  "hashes.jsonl",
    "metrics.jsonl", "tensorboard",      "mlflow.json", "operations.json",
    "resolved.txt",  kTokenizerFolder,   kRecipeFile};

constexpr std::uint64_t kMostLineBytes = std::uint64_t{1} << 36;
constexpr std::string_view kDamagedSuffix = ".damaged-";

std::optional<std::int64_t> step_of_hash(std::string_view line) {
  const std::optional<HashLine> found = parse_hash_line(line);
  return found ? std::optional(found->step) : std::nullopt;
}

std::optional<std::int64_t> step_of_metrics(std::string_view line) {
  const std::optional<MetricsLine> found = parse_metrics_line(line);
  if (!found) return std::nullopt;
  return std::visit([](const auto& point) { return point.step; }, *found);
}

// "line 3", "lines 3, 4 and 9", and no more than a few by number.
std::string line_list(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t kMost = 5;
  if (numbers.size() > kMost) return cat(numbers.size(), " lines from line ", numbers[0], " on");
  std::string text = numbers.size() == 1 ? "line " : "lines ";
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += cat(i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return text;
}

// PREFIX1, or the first of PREFIX2, ... that is not there yet.
fs::path free_name(const std::string& prefix) {
  for (int i = 1;; ++i) {
    fs::path name = cat(prefix, i);
    if (!fs::exists(fs::symlink_status(name))) return name;
  }
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
  PODIUM_REQUIRE(file_.is_in_place(), ExitCode::kData, path_.string(),
                 ": the file was deleted, moved or replaced while the run wrote it, so its lines "
                 "are no longer recorded there. Put the run's folder back as it was and give the "
                 "same command again, which goes on from the last checkpoint, or start over with "
                 "--fresh");
}

namespace {

// Chooses among a file's lines, given one after the other, those that a run goes on from.
class LineChooser {
 public:
  LineChooser(std::int64_t last_step, bool rising) : last_step_(last_step), rising_(rising) {}

  void add(std::string_view line, std::optional<std::int64_t> step) {
    ++number_;
    if (!step) {
      // After a line beyond the last step, nothing is missed: those steps are made again.
      (beyond_.empty() ? damaged_ : beyond_).push_back(number_);
    } else if (*step > last_step_) {
      beyond_.push_back(number_);
    } else {
      // What looked like steps beyond the last stands before this one: their numbers are damaged.
      damaged_.insert(damaged_.end(), beyond_.begin(), beyond_.end());
      beyond_.clear();
      choose({line, *step, number_});
    }
  }

  // The lines that stay, in order, each with its newline.
  std::string kept() {
    flush();
    return std::move(kept_);
  }
  std::vector<std::int64_t> damaged() const {
    std::vector<std::int64_t> numbers = damaged_;
    std::ranges::sort(numbers);
    return numbers;
  }

 private:
  struct Line {
    std::string_view text;
    std::int64_t step = 0, number = 0;
  };

  bool may_follow(std::int64_t step, std::int64_t before) const {
    return rising_ ? step > before : step >= before;
  }

  // A line is kept once the one after it has confirmed its place. Of two that are out of order, the
  // second is wrong unless it would follow what was kept before; of two of one step, one is wrong
  // and nothing says which.
  void choose(const Line& line) {
    if (held_ && !may_follow(line.step, held_->step)) {
      if (line.step == held_->step) {
        damaged_.insert(damaged_.end(), {held_->number, line.number});
        held_.reset();
      } else if (may_follow(line.step, kept_step_)) {
        damaged_.push_back(held_->number);
        held_ = line;
      } else {
        damaged_.push_back(line.number);
      }
      return;
    }
    flush();
    if (may_follow(line.step, kept_step_))
      held_ = line;
    else
      damaged_.push_back(line.number);
  }

  void flush() {
    if (!held_) return;
    kept_.append(held_->text).push_back('\n');
    kept_step_ = held_->step;
    held_.reset();
  }

  const std::int64_t last_step_;
  const bool rising_;
  std::int64_t number_ = 0, kept_step_ = -1;
  std::optional<Line> held_;
  std::string kept_;
  std::vector<std::int64_t> damaged_, beyond_;  // numbers of lines
};

}  // namespace

JsonLines::Damage JsonLines::cut_after(std::int64_t step, const StepOf& step_of, bool rising) {
  buffer_.clear();
  file_ = OutputFile();
  const std::optional<std::string> text = read_text(path_, kMostLineBytes);
  if (!text) return {};
  LineChooser lines(step, rising);
  for (std::size_t begin = 0;;) {
    const std::size_t newline = text->find('\n', begin);
    if (newline == std::string::npos) break;
    const std::string_view line = std::string_view(*text).substr(begin, newline - begin);
    lines.add(line, step_of(line));
    begin = newline + 1;
  }
  const std::string kept = lines.kept();
  if (kept == *text) return {};
  Damage damage{.lines = lines.damaged(), .original = {}};
  if (damage.lines.empty()) {
    // What stays is the file's beginning.
    if (::truncate(path_.c_str(), static_cast<off_t>(kept.size())) != 0)
      throw_io_error(path_, "shorten", errno);
    file_ = OutputFile(path_, OutputFile::Mode::kAppend);
    file_.sync();
    return damage;
  }
  // First the copy: there is a whole file with every line at any moment.
  damage.original = free_name(cat(path_.string(), kDamagedSuffix));
  replace_text(damage.original, *text);
  replace_text(path_, kept);
  return damage;
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
  if (*own == text) return;
  // The data were moved, or are called otherwise, or damaged examples are skipped from here on.
  PODIUM_REQUIRE(
      goes_on_as(*own, std::string(text)), ExitCode::kUsage, (dir_ / kRecipeFile).string(),
      ": this folder contains a run of another recipe; choose another folder with --out, or "
      "start over with --fresh. The difference (- the folder's, + yours):\n",
      line_difference(*own, text));
}

void RunFolder::keep_tokenizer(const std::vector<std::string>& files) {
  const fs::path folder = dir_ / kTokenizerFolder;
  if (files.empty() || exists(folder)) return;
  const fs::path parts = dir_ / cat(kTokenizerFolder, ".part");
  make_folders(parts);
  for (const std::string& file : files)
    replace_text(parts / fs::path(file).filename(), read_text(file).value_or(""));
  std::error_code error;
  fs::rename(parts, folder, error);
  if (error) throw_io_error(folder, "make", error.value());
  sync_folder(dir_);
}

void RunFolder::keep_place(std::string_view text) {
  const std::optional<std::string> own = recipe();
  if (!own || resolved_anew(*own) != text) replace_text(dir_ / kRecipeFile, text);
}

void RunFolder::start_afresh() {
  hashes_ = JsonLines(dir_ / "hashes.jsonl");
  metrics_ = JsonLines(dir_ / "metrics.jsonl");
  if (std::none_of(kParts.begin(), kParts.end(), [&](auto part) { return exists(dir_ / part); }))
    return;
  const fs::path to = free_name((dir_ / "previous-").string());
  make_folders(to);
  std::vector<std::string> names(kParts.begin(), kParts.end());
  for (const fs::directory_entry& entry : fs::directory_iterator(dir_)) {
    const std::string name = entry.path().filename().string();
    if (std::ranges::any_of(kParts,
                            [&](auto part) { return name.starts_with(cat(part, kDamagedSuffix)); }))
      names.insert(names.begin(), name);
  }
  for (const std::string& name : names) {
    if (::rename((dir_ / name).c_str(), (to / name).c_str()) != 0 && errno != ENOENT)
      throw_io_error(dir_ / name, "move", errno);
  }
  sync_folder(dir_);
}

void RunFolder::resume(const std::function<void(const Checkpoint&)>& restore,
                       const std::function<void(const std::string&)>& warn, StopToken stop) {
  const std::optional<Checkpoint> checkpoint = load_latest(dir_, warn, Damaged::kSetAside, stop);
  if (checkpoint) restore(*checkpoint);
  const std::int64_t step = checkpoint ? checkpoint->step : 0;
  const auto cut = [&](JsonLines& lines, auto step_of, bool rising) {
    const JsonLines::Damage damage = lines.cut_after(step, step_of, rising);
    if (damage.lines.empty() || !warn) return;
    warn(cat(
        lines.path().string(), ": ", line_list(damage.lines),
        " could not be read or was out of order, and was left out. The original file is kept as ",
        damage.original.filename().string(),
        ": to restore a line, repair it there, and put the file back after the run has ended"));
  };
  cut(hashes_, step_of_hash, true);
  cut(metrics_, step_of_metrics, false);
}

bool RunFolder::has_evaluation(std::int64_t step) {
  metrics_.flush(false);
  const std::string text = read_text(metrics_.path(), kMostLineBytes).value_or("");
  return std::ranges::any_of(lines_of(text), [&](std::string_view line) {
    const std::optional<MetricsLine> found = parse_metrics_line(line);
    const auto* test = found ? std::get_if<TestPoint>(&*found) : nullptr;
    return test != nullptr && test->step == step;
  });
}

// By hand: it is called in every step and allocates nothing.
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

void RunFolder::append_metrics(std::int64_t step, const std::vector<MetricField>& fields) {
  nlohmann::ordered_json line = {{"step", step}};
  for (const MetricField& field : fields)
    std::visit([&](const auto& value) { line[std::string(field.name)] = value; }, field.value);
  metrics_.append(json_line(line));
}

// The lock is what the folder had when the run began.
void RunFolder::require_in_place() const {
  PODIUM_REQUIRE(leads_to(dir_ / ".lock", lock_), ExitCode::kData, dir_.string(),
                 ": the run's folder was deleted, moved or replaced during the run, so nothing can "
                 "be recorded in it. Put it back and give the same command again, which goes on "
                 "from its last checkpoint; without it, the run starts anew");
}

void RunFolder::flush() {
  require_in_place();
  hashes_.flush(false);
  metrics_.flush(false);
}

void RunFolder::save(const Checkpoint& checkpoint, int keep) {
  require_in_place();
  hashes_.flush(true);
  metrics_.flush(true);
  write_checkpoint(dir_, checkpoint, keep);
}

void RunFolder::save_best(const Checkpoint& checkpoint) {
  require_in_place();
  hashes_.flush(true);
  metrics_.flush(true);
  write_best_checkpoint(dir_, checkpoint);
}

void require_own_folder(const fs::path& dir) {
  std::error_code error;
  PODIUM_REQUIRE(!fs::exists(dir, error) || fs::is_directory(dir, error), ExitCode::kUsage,
                 "--out ", dir.string(), ": is a file; a run needs a folder: choose another name");
  const fs::path whole = fs::weakly_canonical(fs::absolute(dir, error), error),
                 here = fs::current_path(error);
  if (error) return;
  // A trailing slash leaves an empty last part.
  const fs::path own = whole.has_filename() ? whole : whole.parent_path();
  for (fs::path above = here;; above = above.parent_path()) {
    PODIUM_REQUIRE(own != above, ExitCode::kUsage, "--out ", dir.string(), ": is ",
                   above == here ? "the current folder" : "a folder above the current one",
                   "; give the run a folder of its own, such as --out runs/a");
    if (above == above.parent_path()) break;
  }
}

bool holds_run(const fs::path& dir) {
  std::error_code ignored;
  return fs::is_regular_file(dir / kRecipeFile, ignored);
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
  // The folder's may be from before this Podium had some keys, and the data may have moved.
  if (goes_on_as(theirs->second, *own)) return;
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

Checkpoint checkpoint_of(const fs::path& run, const std::string& step) {
  if (step.empty()) return last_checkpoint(run);
  require_run(run);
  std::error_code error;
  const bool has_best = fs::exists(best_checkpoint(run), error);
  fs::path folder = step == "best" && has_best ? best_checkpoint(run) : fs::path();
  std::string kept = has_best ? "best" : "";
  for (const CheckpointPlace& place : list_checkpoints(run)) {
    if (step == std::to_string(place.step)) folder = place.folder;
    kept += cat(kept.empty() ? "" : ", ", place.step);
  }
  PODIUM_REQUIRE(!folder.empty(), ExitCode::kUsage, "--step ", step, ": ", run.string(),
                 " keeps no such checkpoint; it keeps ", kept.empty() ? "none" : kept,
                 step == "best" ? " (run.keep_best = true keeps the best)" : "");
  Checkpoint checkpoint = load_checkpoint(folder);
  require_same_recipe(checkpoint, run);
  return checkpoint;
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
