// Talk: lines for people, on stderr. Results go to stdout, and are not talk.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace podium {

// Sends base/log.h here as well.
void install_talk();
// Lets warnings and errors through alone.
void set_quiet(bool quiet);

// One or more lines of information.
void say(const std::string& text);
void warn(const std::string& text);
// Why the program ends without having done what was asked: "podium: ...", always shown.
void complain(const std::string& text);

// While a live block stands on the terminal, talk goes through its owner, a line at a time; null:
// straight to stderr again.
void set_talk_route(std::function<void(std::string_view)> route);

}  // namespace podium
