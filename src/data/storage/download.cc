#include "data/storage/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "store/curl.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) { throw UserError(what, ExitCode::kData); }

const char* remedy_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "make room, or download to another folder with --data-dir";
    case EACCES:
    case EPERM:
    case EROFS: return "change its permissions, or download to another folder with --data-dir";
    case ENOTDIR:
    case EEXIST:
      return "a file is in the place of a folder: move it, or download to another folder with "
             "--data-dir";
    case EISDIR: return "a folder is in the place of a file: move it away";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    default: return "try again, or download to another folder with --data-dir";
  }
}

[[noreturn]] void fail_file(const std::string& path, const char* what, int error) {
  fail(cat(path, ": ", what, ": ", std::strerror(error), "; ", remedy_for(error)));
}

// TARGET.part, held by this process alone for as long as the object lives.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    // A part that its owner finishes between our open and our lock has another name by then.
    while (true) {
      file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (file_ < 0) fail_file(path_, "cannot be written", errno);
      if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        ::close(file_);
        if (error != EWOULDBLOCK) fail_file(path_, "cannot be locked", error);
        fail(cat(path_, ": another process is downloading this file; wait until it has finished"));
      }
      struct stat opened {};
      struct stat named {};
      if (::fstat(file_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
          opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
        return;
      }
      ::close(file_);
    }
  }
  ~PartFile() { ::close(file_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const {
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail_file(path_, "cannot be read", errno);
    return status.st_size;
  }
  void clear() {
    if (::ftruncate(file_, 0) != 0) fail_file(path_, "cannot be truncated", errno);
  }
  void remove() { ::unlink(path_.c_str()); }
  void append(const char* bytes, std::size_t n) {
    if (::lseek(file_, 0, SEEK_END) < 0) fail_file(path_, "cannot be written", errno);
    while (n > 0) {
      const ssize_t done = ::write(file_, bytes, n);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_file(path_, "cannot be written", errno);
      bytes += done;
      n -= static_cast<std::size_t>(done);
    }
  }
  // Gives the file its name, on the disk for good.
  void finish(const std::string& target) {
    if (::fsync(file_) != 0) fail_file(path_, "cannot be synced", errno);
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      fail_file(path_, "cannot be renamed", errno);
    }
    const std::string folder = fs::path(target).parent_path().string();
    const int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
    if (directory >= 0) {
      ::fsync(directory);
      ::close(directory);
    }
  }

 private:
  std::string path_;
  int file_ = -1;
};

// What an attempt came to.
struct Outcome {
  // kCut is worth another attempt, kUnreachable where the server has answered before.
  enum Kind { kWhole, kCut, kStalled, kRefused, kUnreachable } kind;
  std::string text;
};

// Notices that an attempt gets no bytes, or next to none.
class Watch {
 public:
  explicit Watch(const DownloadRequest& request)
      : request_(request), last_byte_(Clock::now()), window_{{last_byte_, 0}} {}

  // Called again and again with the bytes so far; returns what is wrong, or nothing.
  std::string look(std::int64_t bytes) {
    const auto now = Clock::now();
    if (bytes > bytes_) bytes_ = bytes, last_byte_ = now;
    if (seconds(now - last_byte_) >= request_.silent_seconds)
      return cat("no byte was received for ", number(request_.silent_seconds), " s");
    // What came within the last slow_seconds, to within a thirtieth of them.
    if (seconds(now - window_.back().first) >= request_.slow_seconds / 30)
      window_.emplace_back(now, bytes);
    while (window_.size() > 1 && seconds(now - window_[1].first) >= request_.slow_seconds)
      window_.pop_front();
    const double span = seconds(now - window_.front().first);
    const auto least = static_cast<double>(request_.slow_bytes_per_second);
    if (span < request_.slow_seconds ||
        static_cast<double>(bytes - window_.front().second) >= least * span)
      return "";
    return cat("fewer than ", request_.slow_bytes_per_second,
               " bytes per second were received for ", number(request_.slow_seconds), " s");
  }

 private:
  static double seconds(Clock::duration span) {
    return std::chrono::duration<double>(span).count();
  }
  // "30", "0.5".
  static std::string number(double value) {
    std::ostringstream text;
    text << value;
    return text.str();
  }

  const DownloadRequest& request_;
  std::int64_t bytes_ = 0;
  Clock::time_point last_byte_;
  std::deque<std::pair<Clock::time_point, std::int64_t>> window_;
};

class Transfer {
 public:
  Transfer(const std::string& address, PartFile& part, const DownloadRequest& request)
      : address_(address),
        part_(part),
        request_(request),
        handle_(new_web_handle()),
        watch_(request) {}
  ~Transfer() { curl_easy_cleanup(handle_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Outcome run() {
    offset_ = part_.size();
    set(CURLOPT_URL, address_.c_str());
    set(CURLOPT_USERAGENT, "podium");
    set(CURLOPT_ERRORBUFFER, message_.data());
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, request_.connect_seconds);
    set(CURLOPT_WRITEFUNCTION, &Transfer::write);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    const std::string range = cat(offset_, "-");
    if (offset_ > 0) set(CURLOPT_RANGE, range.c_str());

    const CURLcode code = curl_easy_perform(handle_);
    if (error_) std::rethrow_exception(error_);
    if (!stalled_.empty()) return {Outcome::kStalled, stalled_};
    if (too_long_) {
      part_.clear();
      // The bytes from before may be to blame: once more, from the start.
      return {offset_ > 0 ? Outcome::kCut : Outcome::kRefused,
              cat("sends more than the ", request_.most_bytes, " bytes that the file can have")};
    }
    return judge(code);
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    PODIUM_CHECK(curl_easy_setopt(handle_, option, value) == CURLE_OK, static_cast<int>(option));
  }

  long status() const {
    long value = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &value);
    return value;
  }

  Outcome judge(CURLcode code) {
    if (code == CURLE_OK) {
      // An answer without a body never reached write(), where a fresh start is noticed.
      if (!answered_ && status() == 200) part_.clear();
      return {Outcome::kWhole, ""};
    }
    const std::string text = web_problem(code, message_.data());
    if (fails_always(code)) return {Outcome::kRefused, text};
    switch (code) {
      case CURLE_HTTP_RETURNED_ERROR:
        // "Range not satisfiable": nothing is left to fetch. The check says whether it is right.
        if (status() == 416 && offset_ > 0) return {Outcome::kWhole, ""};
        if (status() >= 500 || status() == 408 || status() == 429) return {Outcome::kCut, text};
        return {Outcome::kRefused, text};
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT: return {Outcome::kUnreachable, text};
      case CURLE_OPERATION_TIMEDOUT:
        return {status() == 0 ? Outcome::kUnreachable : Outcome::kCut, text};
      default: return {Outcome::kCut, text};
    }
  }

  // No exception may pass through curl: it is kept, and thrown again by run().
  static std::size_t write(char* bytes, std::size_t, std::size_t n, void* self) {
    auto* const transfer = static_cast<Transfer*>(self);
    try {
      return transfer->accept(bytes, n) ? n : n + 1;
    } catch (...) {
      transfer->error_ = std::current_exception();
      return n + 1;
    }
  }

  // Returns whether to go on.
  bool accept(const char* bytes, std::size_t n) {
    if (!answered_ && offset_ > 0 && status() != 206) {  // the server sends all, from the start
      part_.clear();
      offset_ = 0;
    }
    const std::int64_t rest = answered_ ? 0 : announced();
    answered_ = true;
    const std::int64_t least = part_.size() + std::max(rest, static_cast<std::int64_t>(n));
    too_long_ = request_.most_bytes > 0 && least > request_.most_bytes;
    if (!too_long_) part_.append(bytes, n);
    return !too_long_;
  }

  // The length that the server announces for this answer; -1 where it does not.
  std::int64_t announced() const {
    curl_off_t bytes = -1;
    curl_easy_getinfo(handle_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
    return bytes;
  }

  static int progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
    auto* const transfer = static_cast<Transfer*>(self);
    try {
      transfer->stalled_ = transfer->watch_.look(now);
      if (!transfer->stalled_.empty()) return 1;
      if (transfer->request_.progress && transfer->answered_) {
        transfer->request_.progress(transfer->offset_ + now,
                                    total > 0 ? transfer->offset_ + total : 0);
      }
      return 0;
    } catch (...) {
      transfer->error_ = std::current_exception();
      return 1;
    }
  }

  const std::string& address_;
  PartFile& part_;
  const DownloadRequest& request_;
  CURL* handle_;
  std::array<char, CURL_ERROR_SIZE> message_{};
  std::int64_t offset_ = 0;  // bytes that were there before
  bool answered_ = false;    // the first bytes of the body have come
  bool too_long_ = false;    // there are more of them than the request allows
  std::string stalled_;      // not empty: the attempt was given up, and why
  Watch watch_;
  std::exception_ptr error_;
};

void make_folder_of(const std::string& target) {
  const fs::path folder = fs::path(target).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_file(folder.string(), "cannot be made", error.value());
}

// All attempts at one address. Returns true when the file is whole; else adds to `problems`.
bool try_address(const std::string& address, const DownloadRequest& request, PartFile& part,
                 std::string& problems) {
  double pause = request.pause_seconds;
  bool answered = false;
  int stalled = 0;  // attempts in a row without a new byte
  std::string last;
  for (int attempt = 0; attempt < request.attempts; ++attempt) {
    if (attempt > 0) {
      if (request.notice)
        request.notice(cat(address, ": ", last, "; attempt ", attempt + 1, " of ", request.attempts,
                           part.size() > 0 ? cat(" resumes after ", part.size(), " bytes") : ""));
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      pause *= 2;
    }
    const std::int64_t before = part.size();
    const Outcome outcome = Transfer(address, part, request).run();
    if (outcome.kind != Outcome::kWhole) {
      if (outcome.text != last) problems += cat("\n  ", address, ": ", outcome.text);
      last = outcome.text;
      stalled = outcome.kind == Outcome::kStalled && part.size() == before ? stalled + 1 : 0;
      if (stalled == 2) return false;
      const bool unreachable = outcome.kind == Outcome::kUnreachable && !answered;
      if (outcome.kind == Outcome::kRefused || unreachable) return false;
      answered = answered || outcome.kind == Outcome::kCut || part.size() > before;
      continue;
    }
    try {
      if (request.check) request.check(part.path());
      return true;
    } catch (const UserError& error) {
      problems += cat("\n  ", address, ": ", error.what());
      last = "the downloaded file is not the expected one";
      part.clear();
      if (before == 0) return false;  // else the bytes from before may be to blame: once more
    }
  }
  return false;
}

}  // namespace

void download(const DownloadRequest& request) {
  make_folder_of(request.target);
  PartFile part(request.target + ".part");
  std::string problems;
  for (const std::string& address : request.addresses) {
    if (try_address(address, request, part, problems)) {
      if (request.ready) request.ready();
      part.finish(request.target);
      return;
    }
  }
  std::string text = cat(request.target, ": the download failed.", problems);
  if (part.size() > 0) {
    text +=
        cat("\n", part.size(), " bytes are kept in ", part.path(), "; the same command resumes");
  } else {
    part.remove();
    text += "\nCheck the network and try again, or copy the file there yourself";
  }
  fail(text);
}

}  // namespace podium
