#include "train/plugin/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/shared_object.h"
#include "base/words.h"
#include "files/checksum.h"
#include "files/file_io.h"
#include "podium_version.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::string_view(kVersion) == PODIUM_VERSION,
              "base/version.h and CMakeLists.txt have different versions");

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;

std::deque<LoadedPlugin>& plugins() {
  static std::deque<LoadedPlugin> loaded;
  return loaded;
}

std::string sha256_of(const fs::path& file) {
  const std::string bytes = read_text(file, kMostBytes).value_or("");
  return sha256({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

template <typename Function>
Function entry_point(void* handle, const char* name, const fs::path& file) {
  void* symbol = ::dlsym(handle, name);
  PODIUM_REQUIRE(symbol != nullptr, ExitCode::kUsage, "plugin ", file.string(),
                 ": it has no entry point ", name,
                 "; a plugin of Podium has one PODIUM_PLUGIN(registry) { ... } "
                 "(podium/train/plugin/plugin.h)");
  return reinterpret_cast<Function>(symbol);
}

void require_same_build(const PluginBuild& built, const fs::path& file) {
  constexpr PluginBuild kOurs = this_plugin_build();
  // A struct of another size may hold anything else.
  const std::string version =
      built.bytes == sizeof(PluginBuild)
          ? std::string(built.version, ::strnlen(built.version, sizeof built.version))
          : "unknown";
  PODIUM_REQUIRE(built.bytes == sizeof(PluginBuild) && version == kVersion, ExitCode::kUsage,
                 "plugin ", file.string(), ": it was compiled for Podium ", version,
                 ", and this is ", kVersion,
                 "; compile it anew against the headers of this version");
  PODIUM_REQUIRE(built.layout == kOurs.layout, ExitCode::kUsage, "plugin ", file.string(),
                 ": it was compiled against other headers of Podium ", version,
                 " than this program's, or for another standard library; compile it anew against "
                 "the headers that came with this program");
}

// The name by which a start in environment.json records a plugin, and its checksum.
struct Recorded {
  std::string path, sha256;
};

// Of the run's last start; none where the file cannot be read.
std::vector<Recorded> recorded_plugins(const fs::path& run) {
  std::vector<Recorded> found;
  const json file = json::parse(read_text(run / "environment.json").value_or(""), nullptr, false);
  if (!file.is_object() || !file.contains("starts") || !file["starts"].is_array() ||
      file["starts"].empty())
    return found;
  const json& last = file["starts"].back();
  if (!last.is_object() || !last.contains("plugins") || !last["plugins"].is_array()) return found;
  for (const json& plugin : last["plugins"]) {
    if (!plugin.is_object() || !plugin.contains("path") || !plugin["path"].is_string()) continue;
    found.push_back({plugin["path"].get<std::string>(),
                     plugin.contains("sha256") && plugin["sha256"].is_string()
                         ? plugin["sha256"].get<std::string>()
                         : ""});
  }
  return found;
}

// Whether a loaded plugin is this file, wherever it lies now.
bool is_loaded(const Recorded& recorded) {
  return std::ranges::any_of(plugins(), [&](const LoadedPlugin& plugin) {
    return plugin.sha256 == recorded.sha256 ||
           plugin.path.filename() == fs::path(recorded.path).filename();
  });
}

}  // namespace

void Registry::model(const std::string& name, const std::string& description, Model build) {
  register_model({name, description, std::move(build)});
  models_.push_back(name);
}

void Registry::dataset(DatasetInfo info) {
  datasets_.push_back(info.name);
  register_dataset(std::move(info));
}

void Registry::operation(const OpDef& op, OperationCheckOptions check) {
  register_operation(op);
  operations_.push_back({&op, std::move(check)});
}

const LoadedPlugin& load_plugin(const fs::path& file) {
  std::error_code error;
  const fs::path path = fs::canonical(file, error);
  PODIUM_REQUIRE(!error, ExitCode::kUsage, "plugin ", file.string(),
                 ": cannot be opened: ", error.message(),
                 "; give the path of a plugin's shared object");
  PODIUM_REQUIRE(fs::is_regular_file(path, error), ExitCode::kUsage, "plugin ", path.string(),
                 ": it is not a file; give the path of a plugin's shared object");
  for (const LoadedPlugin& loaded : plugins())
    if (loaded.path == path) return loaded;

  const auto [handle, problem] = load_shared_object(path.string());
  PODIUM_REQUIRE(handle != nullptr, ExitCode::kUsage, "plugin ", path.string(),
                 ": the system cannot load it: ", problem,
                 "; a plugin is a shared object that was compiled for this version of Podium "
                 "(docs/adding-a-model.md)");
  const auto build = entry_point<const PluginBuild* (*)()>(handle, "podium_plugin_build", path);
  require_same_build(*build(), path);
  const auto enter = entry_point<void (*)(Registry&)>(handle, "podium_plugin_register", path);
  LoadedPlugin loaded{.path = path, .sha256 = sha256_of(path), .registered = {}};
  const auto failed = [&](const std::string& why, ExitCode code) {
    return UserError(cat("plugin ", path.string(), ": its registration failed: ", why), code);
  };
  try {
    enter(loaded.registered);
  } catch (const UserError& thrown) {
    throw failed(thrown.what(), thrown.code());
  } catch (const std::exception& thrown) {
    throw failed(thrown.what(), ExitCode::kUsage);
  } catch (...) {
    throw failed("it threw something that is not a std::exception", ExitCode::kUsage);
  }
  return plugins().emplace_back(std::move(loaded));
}

const std::deque<LoadedPlugin>& loaded_plugins() { return plugins(); }

Recipe read_run_recipe(const fs::path& run, const std::vector<std::string>& overrides,
                       ModelNames models) {
  const fs::path file = run / "recipe.toml";
  try {
    Recipe recipe = read_recipe(file, overrides, models);
    std::error_code error;
    const fs::path tokenizer = run / kTokenizerFolder;
    if (fs::is_directory(tokenizer, error))
      recipe.text.tokenizer = fs::absolute(tokenizer).string();
    return recipe;
  } catch (const UserError& error) {
    std::string missing;
    for (const Recorded& plugin : recorded_plugins(run))
      if (!is_loaded(plugin)) missing += " --plugin " + plugin.path;
    if (missing.empty()) {
      const std::string text = error.what();
      if (!overrides.empty() || text.find("unknown key") == std::string::npos) throw;
      throw UserError(text + "\nif a newer Podium made this run, use that one", error.code());
    }
    throw UserError(
        cat(error.what(), "\nthe run was made with", missing, "; give that to this command, too"),
        error.code());
  }
}

std::vector<std::string> changed_plugins(const fs::path& run) {
  std::vector<std::string> lines;
  for (const Recorded& recorded : recorded_plugins(run)) {
    for (const LoadedPlugin& plugin : plugins()) {
      if (plugin.path.filename() == fs::path(recorded.path).filename() &&
          plugin.sha256 != recorded.sha256)
        lines.push_back(cat("plugin ", plugin.path.string(),
                            " is not the file with which the run was made so far; what it computes "
                            "may differ"));
    }
  }
  return lines;
}

}  // namespace podium
