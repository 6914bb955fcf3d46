#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "cli/talk.h"

namespace podium {

ProgressLine::ProgressLine()
    : terminal_(isatty(STDERR_FILENO) != 0),
      interval_(terminal_ ? 100 : 3000),
      shown_(terminal_ ? Clock::time_point{} : Clock::now()) {
  if (terminal_)
    set_talk_route([this](std::string_view line) {
      end();
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    });
}

ProgressLine::~ProgressLine() {
  end();
  if (terminal_) set_talk_route(nullptr);
}

void ProgressLine::operator()(const std::string& text, bool last) {
  const auto now = Clock::now();
  if (now - shown_ < interval_ && !(terminal_ && last)) return;
  shown_ = now;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  open_ = terminal_;
}

void ProgressLine::end() {
  if (open_) std::fprintf(stderr, "\r\033[K");
  open_ = false;
}

}  // namespace podium
