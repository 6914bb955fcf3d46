#include "tests/house/folders.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace podium::house {
namespace {

// The table of the house, in the order in which data and instructions travel.
const std::vector<std::pair<std::string, std::vector<std::string>>>& rows() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"base", {}},
      {"tensor", {"base"}},
      {"graph", {"tensor"}},
      {"ops", {"graph"}},
      {"autodiff", {"ops"}},
      {"nn", {"ops"}},
      {"optim", {"ops"}},
      {"compile", {"ops"}},
      {"backend", {"compile"}},
      {"parallel",
       {"tensor", "backend/device.h", "backend/device_network.h", "backend/key_values.h"}},
      {"files", {"tensor"}},
      {"store", {"files"}},
      {"data", {"store", "backend/cpu/kernels/resize_pixels.h", "backend/cpu/kernels/targets.h"}},
      {"train", {"autodiff", "nn", "optim", "compile", "backend", "parallel", "data"}},
      {"report", {"train"}},
      {"trust", {"train", "report"}},
      {"onnx", {"train"}},
      {"plan", {"train"}},
      {"cli", {"train", "report", "trust", "onnx", "plan"}},
  };
  return table;
}

// Folders with rooms: what each room may include of its own folder.
const std::vector<std::pair<std::string, std::vector<std::string>>>& rooms() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"base/numerics", {"base/error.h", "base/stop.h"}},
      {"train/recipe", {}},
      {"train/program", {"train/recipe"}},
      {"train/loop", {"train/program", "train/run/rank_plan.h"}},
      {"train/plugin", {"train/loop"}},
      {"train/machine", {"train/plugin"}},
      {"train/run", {"train/machine", "train/predict/translate.h"}},
      {"train/predict", {"train/run"}},
  };
  return table;
}

constexpr std::string_view kLastOfCore = "parallel";

// The files that know MPI.
constexpr std::string_view kMpi[] = {"parallel/mpi_library.cc", "parallel/mpi_transport.cc",
                                     "parallel/mpi_notices.h", "parallel/mpi_sums.cc"};

constexpr std::string_view kSlowHeaders[] = {"nlohmann/", "toml++/", "spdlog/", "google/protobuf/",
                                             "CLI/",      "curl/",   "fmt/"};

// Made by the build (cmake/PodiumVersion.cmake).
constexpr std::string_view kGenerated = "podium_version.h";

// All that a folder or a room may include: names of folders or rooms, and single files.
std::map<std::string, std::set<std::string>> closure(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& table) {
  std::map<std::string, std::set<std::string>> allowed;
  for (const auto& [folder, names] : table) {
    std::set<std::string>& all = allowed[folder];
    all.insert(folder);
    for (const std::string& name : names) {
      all.insert(name);
      if (const auto below = allowed.find(name); below != allowed.end()) {
        all.insert(below->second.begin(), below->second.end());
      }
    }
  }
  return allowed;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (text.ends_with(end)) return true;
  }
  return false;
}

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

// "train/loop" of "train/loop/step.cc"; empty for a file of train/ itself.
std::string room_of(const std::string& path) {
  const std::size_t first = path.find('/');
  const std::size_t second = first == std::string::npos ? first : path.find('/', first + 1);
  return second == std::string::npos ? "" : path.substr(0, second);
}

// "cpu" of "backend/cpu/kernels/conv.cc"; empty for a file of backend/ itself.
std::string backend_of(const std::string& path) {
  if (first_part(path) != "backend") return "";
  const std::size_t begin = path.find('/') + 1;
  const std::size_t end = path.find('/', begin);
  return end == std::string::npos ? "" : path.substr(begin, end - begin);
}

// The included name without its quotes or brackets.
struct Include {
  std::string name;
  bool quoted = false;
};

std::optional<Include> parse_include(std::string_view line) {
  const auto skip_blanks = [&line] {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  };
  const auto skip = [&line](std::string_view word) {
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  skip_blanks();
  if (!skip("#")) return std::nullopt;
  skip_blanks();
  if (!skip("include")) return std::nullopt;
  skip_blanks();
  if (line.empty() || (line.front() != '"' && line.front() != '<')) return std::nullopt;
  const bool quoted = line.front() == '"';
  const std::size_t end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return Include{std::string(line.substr(1, end - 1)), quoted};
}

// The standard library's headers have no suffix; the system's are named here.
bool is_standard_or_system(const std::string& name) {
  if (name.find('.') == std::string::npos && name.find('/') == std::string::npos) return true;
  static const std::set<std::string> system = {"fcntl.h",  "unistd.h",   "pthread.h",   "sched.h",
                                               "signal.h", "cpuid.h",    "immintrin.h", "poll.h",
                                               "dlfcn.h",  "ucontext.h", "elf.h"};
  return name.starts_with("sys/") || name.starts_with("linux/") || name.starts_with("sanitizer/") ||
         system.contains(name);
}

class Checker {
 public:
  Checker() : allowed_(closure(rows())), rooms_(closure(rooms())) {
    for (const auto& [folder, names] : rows()) {
      core_.insert(folder);
      if (folder == kLastOfCore) break;
    }
  }

  std::vector<std::string> check(const SourceFile& file) const {
    std::vector<std::string> found;
    if (ends_with_any(file.path, {"_test.cc", "_fuzz.cc", "_bench.cc", "_test.h", "_test_util.h"}))
      return found;
    const bool in_a_folder = file.path.find('/') != std::string::npos;
    if (in_a_folder && !allowed_.contains(first_part(file.path))) {
      return {file.path + ": the folder " + first_part(file.path) + "/ has no row in the table"};
    }
    std::istringstream lines(file.text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::optional<Include> include = parse_include(line);
      if (!include) continue;
      const std::string broken = in_a_folder ? broken_rule(file.path, *include) : "";
      if (!broken.empty()) {
        found.push_back(file.path + ":" + std::to_string(number) + ": " + broken);
      }
    }
    return found;
  }

 private:
  std::string broken_rule(const std::string& path, const Include& include) const {
    const std::string folder = first_part(path);
    const std::string other = first_part(include.name);
    if (include.quoted && allowed_.contains(other)) {
      const std::set<std::string>& allowed = allowed_.at(folder);
      if (!allowed.contains(other) && !allowed.contains(include.name)) {
        return folder + "/ may not include " + include.name;
      }
      if (const auto room = rooms_.find(room_of(path));
          room != rooms_.end() && other == folder &&
          !room->second.contains(room_of(include.name)) && !room->second.contains(include.name)) {
        return room->first + "/ may not include " + include.name;
      }
      const std::string from = backend_of(path);
      const std::string to = backend_of(include.name);
      if (!from.empty() && !to.empty() && to != from && to != "reference" && to != "lowering") {
        return "backend/" + from + "/ may not include " + include.name + " of another backend";
      }
      return "";
    }
    if (include.name == kGenerated) return "";
    if (include.quoted && include.name.find('/') == std::string::npos) {
      return "include \"" + include.name + "\" by its path from src/";
    }
    if (include.name.starts_with("hwy/")) {
      return folder == "backend" ? "" : "Highway belongs in backend/, not " + include.name;
    }
    if (include.name == "mpi.h") {
      const bool knows_mpi = std::ranges::find(kMpi, path) != std::end(kMpi);
      return knows_mpi ? "" : "MPI belongs in " + std::string(kMpi[1]) + ", not mpi.h";
    }
    if (include.name == "pjrt_c_api.h") {
      return backend_of(path) == "pjrt" ? "" : "PJRT belongs in backend/pjrt/, not pjrt_c_api.h";
    }
    if (include.name == "cuda_runtime.h" || include.name == "nccl.h") {
      return backend_of(path) == "cuda" ? "" : "CUDA belongs in backend/cuda/, not " + include.name;
    }
    if (core_.contains(folder) && !is_standard_or_system(include.name)) {
      return "the core may include no third-party header but Highway's, not " + include.name;
    }
    if (path.ends_with(".h")) {
      for (const std::string_view slow : kSlowHeaders) {
        if (include.name.starts_with(slow)) return include.name + " belongs in a .cc file";
      }
    }
    return "";
  }

  std::map<std::string, std::set<std::string>> allowed_;
  std::map<std::string, std::set<std::string>> rooms_;
  std::set<std::string> core_;
};

}  // namespace

std::vector<std::string> violations(const std::vector<SourceFile>& files) {
  const Checker checker;
  std::vector<std::string> all;
  for (const SourceFile& file : files) {
    for (std::string& line : checker.check(file)) all.push_back(std::move(line));
  }
  return all;
}

std::vector<SourceFile> read_sources(const std::filesystem::path& src) {
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(src)) {
    const std::string path = entry.path().lexically_relative(src).generic_string();
    if (!entry.is_regular_file() || !ends_with_any(path, {".h", ".cc", ".cu"})) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files.push_back({path, std::string(std::istreambuf_iterator<char>(in), {})});
  }
  return files;
}

}  // namespace podium::house
