// Requests over HTTP (libcurl): one answer in memory each, repeated where a repetition can help,
// within a deadline. Thread-safe: connections are kept and shared.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/stop.h"

namespace podium {

struct HttpRequest {
  std::string method = "GET", url;
  std::vector<std::string> headers = {};  // "Name: value"
  std::string_view body = {};             // must outlive the request
};

struct HttpAnswer {
  long status = 0;                             // 0: there was no whole answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string problem;    // why there was none
  bool hopeless = false;  // and will never be: the address, the certificate
  // A header's value; empty: there is none.
  std::string header(const std::string& name) const;
};

// How long a request is repeated.
struct HttpPatience {
  double deadline_seconds = 120;  // of all attempts together
  double first_pause_seconds = 0.2, longest_pause_seconds = 10;
  double silent_seconds = 30;  // an attempt with fewer than 1,024 bytes/s for so long is given up
  long connect_seconds = 15;
};

class Http {
 public:
  explicit Http(HttpPatience patience = {}, StopToken stop = {});
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Sends what `make` returns, anew for each attempt (signatures carry a time). Repeats after lost
  // connections, time-outs and the statuses 408, 429 and 5xx, and wherever `again` says so; pauses
  // grow. Returns the last answer, whatever its status. Throws UserError(kData), which begins with
  // `what`, if there is no whole answer by the deadline; Stopped as the token says.
  HttpAnswer send(const std::string& what, const std::function<HttpRequest()>& make,
                  const std::function<bool(const HttpAnswer&)>& again = {});

  const HttpPatience& patience() const { return patience_; }

 private:
  struct Handles;
  HttpAnswer attempt(const HttpRequest& request);
  HttpPatience patience_;
  StopToken stop_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace podium
