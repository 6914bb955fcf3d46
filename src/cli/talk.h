// Messages for people, on stderr. Results go to stdout.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace podium {

// Sends base/log.h here as well.
void install_talk();
// Shows only warnings and errors.
void set_quiet(bool quiet);

// One or more lines of information.
void say(const std::string& text);
void warn(const std::string& text);
// The reason why the program ends without success: "podium: ...", always shown.
void complain(const std::string& text);

// While a live block is on the terminal, messages go to its owner, line by line; null: directly to
// stderr again.
void set_talk_route(std::function<void(std::string_view)> route);

}  // namespace podium
