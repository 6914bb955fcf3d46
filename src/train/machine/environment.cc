#include "train/machine/environment.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/host_name.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/sanitizers.h"
#include "base/thread_pool.h"
#include "files/file_io.h"
#include "podium_version.h"
#include "train/plugin/plugin.h"

namespace podium {
namespace {

using nlohmann::ordered_json;

// Files of /proc have no size, so read_text is not for them.
std::string read_stream(const char* path) {
  std::string text;
  if (std::FILE* file = std::fopen(path, "re")) {
    std::array<char, 4096> part;
    while (const std::size_t got = std::fread(part.data(), 1, part.size(), file))
      text.append(part.data(), got);
    std::fclose(file);
  }
  return text;
}

std::string_view bare_value(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\"";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The value of the first line "KEY<blanks><separator> VALUE".
std::string value_of(std::string_view text, std::string_view key, char separator) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t at = line.find(separator);
    if (at != std::string_view::npos && bare_value(line.substr(0, at)) == key)
      return std::string(bare_value(line.substr(at + 1)));
  }
  return {};
}

std::string cpu_model() {
  const std::string info = read_stream("/proc/cpuinfo");
  const std::string vendor = value_of(info, "vendor_id", ':');
  const std::string model = value_of(info, "model name", ':');
  if (!model.empty()) return vendor.empty() ? model : cat(vendor, " ", model);
  const std::string implementer = value_of(info, "CPU implementer", ':');  // ARM
  if (!implementer.empty())
    return cat("implementer ", implementer, ", part ", value_of(info, "CPU part", ':'));
  return "unknown";
}

std::int64_t machine_memory() {
  return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

std::int64_t memory_limit() {
  std::int64_t limit = 0;
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::string text = read_stream(path);
    std::from_chars(text.data(), text.data() + text.size(), limit);
    if (limit > 0) break;
  }
  return limit >= (std::int64_t{1} << 60) ? 0 : limit;  // version 1 says "none" by a huge number
}

ordered_json json_of(const ChosenPrice& chosen) {
  const Price& price = chosen.price;
  return {{"provider", price.provider},  {"machine", price.machine},
          {"machines", chosen.machines}, {"device", price.device},
          {"count", price.count},        {"region", price.region},
          {"kind", price.kind},          {"usd_per_hour", price.usd_per_hour},
          {"date", price.date},          {"includes", price.includes},
          {"source", price.source}};
}

ordered_json json_of(const Environment& environment, std::int64_t from_step) {
  const Environment& e = environment;
  ordered_json plugins = ordered_json::array();
  for (const Environment::Plugin& plugin : e.plugins)
    plugins.push_back({{"path", plugin.path}, {"sha256", plugin.sha256}});
  return {
      {"from_step", from_step},
      {"date", e.date},
      {"hostname", e.hostname},
      {"command_line", e.command_line},
      {"podium_version", e.podium_version},
      {"git_commit", e.git_commit},
      {"compiler", e.compiler},
      {"os", e.os},
      {"kernel", e.kernel},
      {"cpu", e.cpu},
      {"vector_target", e.vector_target},
      {"cores", e.cores},
      {"usable_cores", e.usable_cores},
      {"memory_bytes", e.memory_bytes},
      {"memory_limit_bytes",
       e.memory_limit_bytes > 0 ? ordered_json(e.memory_limit_bytes) : ordered_json(nullptr)},
      {"backend", e.backend},
      {"kind", e.kind},
      {"workers", e.workers},
      {"threads", e.threads},
      {"input_threads", e.input_threads},
      {"ranks", e.ranks},
      {"training_data", e.training_data},
      {"evaluation_data", e.evaluation_data},
      {"item", e.words.item},
      {"metric",
       {{"name", e.words.metric},
        {"unit", e.words.unit},
        {"more_is_better", e.words.more_is_better}}},
      {"notes", e.notes},
      {"price", e.price ? json_of(*e.price) : ordered_json(nullptr)},
      {"plugins", std::move(plugins)},
  };
}

}  // namespace

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Environment collect_environment(std::vector<std::string> command_line, std::string vector_target,
                                int workers) {
  Environment e;
  e.date = utc_date();
  e.hostname = host_name();
  e.command_line = std::move(command_line);
  e.podium_version = PODIUM_VERSION;
  e.git_commit = PODIUM_COMMIT;
#if defined(__clang__)
  e.compiler = cat("clang ", __clang_version__);
#else
  e.compiler = cat("gcc ", __VERSION__);
#endif
  e.os = value_of(read_stream("/etc/os-release"), "PRETTY_NAME", '=');
  utsname name = {};
  if (::uname(&name) == 0) e.kernel = cat(name.sysname, " ", name.release, " ", name.machine);
  e.cpu = cpu_model();
  e.vector_target = std::move(vector_target);
  e.cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  e.usable_cores = usable_cores();
  e.memory_bytes = machine_memory();
  e.memory_limit_bytes = memory_limit();
  e.workers = workers;
  for (const LoadedPlugin& plugin : loaded_plugins())
    e.plugins.push_back({plugin.path.string(), plugin.sha256});
  return e;
}

void record_environment(const std::filesystem::path& run_dir, const Environment& environment,
                        std::int64_t from_step) {
  const std::filesystem::path path = run_dir / "environment.json";
  ordered_json starts = ordered_json::array();
  if (const auto text = read_text(path)) {
    const ordered_json before = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (before.is_object() && before.contains("starts") && before["starts"].is_array()) {
      starts = before["starts"];
    } else {
      log(LogLevel::kWarning, cat(path.string(), ": could not be read; a new file is started"));
    }
  }
  starts.push_back(json_of(environment, from_step));
  replace_text(path, json_text(ordered_json{{"starts", starts}}, 2) + "\n");
}

void record_outcome(const std::filesystem::path& run_dir, const StartOutcome& outcome) {
  const std::filesystem::path path = run_dir / "environment.json";
  const auto text = read_text(path);
  ordered_json json = ordered_json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("starts") || !json["starts"].is_array() ||
      json["starts"].empty() || !json["starts"].back().is_object())
    return;
  json["starts"].back()["outcome"] = {
      {"to_step", outcome.to_step},
      {"seconds", outcome.seconds},
      {"start_seconds", outcome.start_seconds},
      {"train_seconds", outcome.train_seconds},
      {"eval_seconds", outcome.eval_seconds},
      {"input_wait_percent", outcome.input_wait_percent},
      {"peak_memory_bytes", outcome.peak_memory_bytes},
      {"planned_memory_bytes", outcome.planned_memory_bytes},
      {"joules", outcome.joules ? ordered_json(*outcome.joules) : ordered_json(nullptr)},
      {"joules_of", outcome.joules_of}};
  replace_text(path, json_text(json, 2) + "\n");
}

std::int64_t usable_memory_bytes() {
  const std::int64_t machine = machine_memory(), container = memory_limit();
  return container > 0 ? std::min(machine, container) : machine;
}

std::int64_t peak_memory_bytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

namespace {
std::atomic<std::int64_t> stated_memory{0};
}

void state_resident_memory(std::int64_t bytes) { stated_memory = bytes; }

std::int64_t resident_memory_bytes() {
  if (const std::int64_t stated = stated_memory; stated != 0) return stated;
  // Of each mapping, a line that ends with the file, and then lines such as "Rss:  12 kB".
  std::array<char, 4096> file = {};
  if (::readlink("/proc/self/exe", file.data(), file.size() - 1) < 0) return 0;
  const std::string program = file.data(), text = read_stream("/proc/self/smaps");
  std::int64_t kibibytes = 0;
  bool of_program = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    if (line.find('-') < colon) {  // the addresses of a mapping
      of_program = line.ends_with(program);
    } else if (line.starts_with(of_program ? "Size:" : "Rss:")) {
      const std::string_view number = bare_value(line.substr(colon + 1));
      std::int64_t value = 0;
      std::from_chars(number.data(), number.data() + number.size(), value);
      kibibytes += value;
    }
  }
  return kibibytes * 1024;
}

void return_free_memory() {
  // A sanitizer has an allocator of its own, and that of glibc is not ready for two threads then.
#if defined(__GLIBC__) && !defined(PODIUM_ADDRESS_SANITIZER) && !defined(PODIUM_THREAD_SANITIZER)
  ::malloc_trim(0);
#endif
}

}  // namespace podium
