#include "store/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/words.h"
#include "store/curl.h"

namespace podium {
namespace {

// What an attempt has while curl works on it.
struct Attempt {
  HttpAnswer answer;
  std::string_view rest;  // of the body that is sent
  std::string_view body;
  StopToken stop;
};

std::size_t take_body(char* bytes, std::size_t, std::size_t n, void* self) {
  static_cast<Attempt*>(self)->answer.body.append(bytes, n);
  return n;
}

std::size_t give_body(char* bytes, std::size_t size, std::size_t n, void* self) {
  auto* const attempt = static_cast<Attempt*>(self);
  const std::size_t some = std::min(size * n, attempt->rest.size());
  std::memcpy(bytes, attempt->rest.data(), some);
  attempt->rest.remove_prefix(some);
  return some;
}

int rewind_body(void* self, curl_off_t offset, int origin) {
  auto* const attempt = static_cast<Attempt*>(self);
  if (origin != SEEK_SET || offset < 0 || offset > static_cast<curl_off_t>(attempt->body.size()))
    return CURL_SEEKFUNC_CANTSEEK;
  attempt->rest = attempt->body.substr(static_cast<std::size_t>(offset));
  return CURL_SEEKFUNC_OK;
}

std::size_t take_header(char* bytes, std::size_t, std::size_t n, void* self) {
  const std::string_view line(bytes, n);
  HttpAnswer& answer = static_cast<Attempt*>(self)->answer;
  if (line.starts_with("HTTP/")) answer.headers.clear();  // of an earlier answer, such as 100
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return n;
  const std::string name = lowercase(std::string(line.substr(0, colon)));
  answer.headers[name] = trimmed(line.substr(colon + 1), " \t\r\n");
  return n;
}

int look_around(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Attempt*>(self)->stop.requested() ? 1 : 0;
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

// Those that are not in use; each keeps its connections.
struct Http::Handles {
  std::mutex mutex;
  std::vector<CURL*> idle;
  ~Handles() {
    for (CURL* handle : idle) curl_easy_cleanup(handle);
  }
  CURL* take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return new_web_handle();
    CURL* const handle = idle.back();
    idle.pop_back();
    return handle;
  }
  void give(CURL* handle) {
    curl_easy_reset(handle);
    prepare_web_handle(handle);
    const std::lock_guard lock(mutex);
    idle.push_back(handle);
  }
};

Http::Http(HttpPatience patience, StopToken stop)
    : patience_(patience), stop_(stop), handles_(std::make_unique<Handles>()) {}

Http::~Http() = default;

HttpAnswer Http::attempt(const HttpRequest& request) {
  CURL* const handle = handles_->take();
  Attempt attempt{.rest = request.body, .body = request.body, .stop = stop_};
  curl_slist* headers = nullptr;
  // "Expect: 100-continue" would cost a turn, and some servers never answer it.
  headers = curl_slist_append(headers, "Expect:");
  for (const std::string& header : request.headers)
    headers = curl_slist_append(headers, header.c_str());
  std::array<char, CURL_ERROR_SIZE> message{};
  const auto set = [&](CURLoption option, auto value) {
    PODIUM_CHECK(curl_easy_setopt(handle, option, value) == CURLE_OK, static_cast<int>(option));
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_USERAGENT, "podium");
  set(CURLOPT_ERRORBUFFER, message.data());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, request.method == "GET" || request.method == "HEAD" ? 1L : 0L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_CONNECTTIMEOUT, patience_.connect_seconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(patience_.silent_seconds)));
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_WRITEDATA, &attempt);
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &attempt);
  set(CURLOPT_XFERINFOFUNCTION, &look_around);
  set(CURLOPT_XFERINFODATA, &attempt);
  set(CURLOPT_NOPROGRESS, 0L);
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, &give_body);
    set(CURLOPT_READDATA, &attempt);
    set(CURLOPT_SEEKFUNCTION, &rewind_body);
    set(CURLOPT_SEEKDATA, &attempt);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  if (request.method != "GET" && request.method != "HEAD")
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  const CURLcode code = curl_easy_perform(handle);
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &attempt.answer.status);
  curl_slist_free_all(headers);
  handles_->give(handle);
  stop_.check();
  if (code != CURLE_OK) {
    attempt.answer.status = 0;
    attempt.answer.problem = web_problem(code, message.data());
    attempt.answer.hopeless = fails_always(code);
  }
  return std::move(attempt.answer);
}

HttpAnswer Http::send(const std::string& what, const std::function<HttpRequest()>& make,
                      const std::function<bool(const HttpAnswer&)>& again) {
  const auto begun = Clock::now();
  double pause = patience_.first_pause_seconds;
  std::string last;
  for (int attempts = 1;; ++attempts) {
    HttpAnswer answer = attempt(make());
    PODIUM_REQUIRE(!answer.hopeless, ExitCode::kData, what, ": ", answer.problem);
    const long status = answer.status;
    const bool repeat =
        status == 0 || status == 408 || status == 429 || status >= 500 || (again && again(answer));
    if (!repeat) return answer;
    last = status == 0 ? answer.problem : cat("the server answers with status ", status);
    if (seconds_since(begun) + pause > patience_.deadline_seconds) {
      // What the server says of itself is for the caller to read.
      if (status != 0 && status < 500) return answer;
      throw UserError(cat(what, ": ", last, ", also at attempt ", attempts, " after ",
                          static_cast<long>(seconds_since(begun)),
                          " s; check the network and the store, and try again"),
                      ExitCode::kData);
    }
    const auto until = Clock::now() + std::chrono::duration<double>(pause);
    while (Clock::now() < until) {
      stop_.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    pause = std::min(2 * pause, patience_.longest_pause_seconds);
  }
}

}  // namespace podium
