#include "backend/pjrt/program_cache.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numerics/hash.h"

namespace podium::pjrt {
namespace {

// The file: this line, then maker, module and program, each after a line with its length, then
// "end " and the hash of all that is before it.
constexpr std::string_view kFirstLine = "podium program 1\n";

std::string checksum(std::string_view bytes) {
  return hash_text(hash_bytes({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
}

// Takes what append() wrote from the front of `rest`; nothing where it is not there.
std::optional<std::string_view> take(std::string_view& rest) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc() || digits == rest.size() || rest[digits] != '\n') return std::nullopt;
  rest.remove_prefix(digits + 1);
  if (size > rest.size()) return std::nullopt;
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(size);
  return taken;
}

void append(std::string& text, std::string_view part) {
  text += cat(part.size(), "\n");
  text += part;
}

}  // namespace

ProgramCache::ProgramCache(std::string folder, std::string maker)
    : folder_(std::move(folder)), maker_(std::move(maker)) {}

ProgramCache ProgramCache::of_environment(std::string maker) {
  if (const char* const folder = std::getenv("PODIUM_PJRT_CACHE"))
    return {folder, std::move(maker)};
  const std::string cache = cache_folder();
  if (cache.empty()) return {};
  return {(std::filesystem::path(cache) / "programs").string(), std::move(maker)};
}

std::string ProgramCache::path_of(const std::string& module) const {
  return (std::filesystem::path(folder_) / (checksum(maker_ + module) + ".program")).string();
}

std::optional<std::string> ProgramCache::find(const std::string& module) const {
  if (!keeps()) return std::nullopt;
  const std::string path = path_of(module);
  const std::optional<std::string> text = read_cache_file(path);
  if (!text) return std::nullopt;
  const auto passed_over = [&](const char* why) {
    log(LogLevel::kInfo, cat(path, ": ", why, "; the program is compiled anew"));
    return std::nullopt;
  };
  constexpr std::size_t kEnd = 4 + 16 + 1;
  if (!text->starts_with(kFirstLine) || text->size() < kFirstLine.size() + kEnd)
    return passed_over("is no program of podium");
  const std::string_view body = std::string_view(*text).substr(0, text->size() - kEnd);
  if (std::string_view(*text).substr(body.size()) != cat("end ", checksum(body), "\n"))
    return passed_over("is damaged, for its checksum is another");
  std::string_view rest = body.substr(kFirstLine.size());
  const auto maker = take(rest), from = take(rest), program = take(rest);
  if (!maker || !from || !program || !rest.empty()) return passed_over("is damaged");
  if (*maker != maker_ || *from != module) return passed_over("is of another program");
  return std::string(*program);
}

void ProgramCache::keep(const std::string& module, std::string_view program) const {
  if (!keeps()) return;
  std::string text(kFirstLine);
  append(text, maker_);
  append(text, module);
  append(text, program);
  text += cat("end ", checksum(text), "\n");
  const std::string path = path_of(module);
  if (!keep_cache_file(path, text))
    log(LogLevel::kInfo,
        cat(path, ": a program could not be kept there; it is compiled anew at the next start"));
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();)
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features"))
      text += line + "\n";
  return text;
}

}  // namespace podium::pjrt
