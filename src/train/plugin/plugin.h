// Plugins: shared objects that add models, datasets and operations to a program that was built
// without them, such as the podium command (`--plugin FILE.so`).
//
//   #include <podium/train/plugin/plugin.h>
//
//   PODIUM_PLUGIN(registry) {
//     registry.model("squeeze", "a small network with squeeze-and-excitation", squeeze_model);
//     registry.dataset(stripes_dataset());
//     registry.operation(channel_scale_op);
//   }
//
// A plugin uses the library's functions of the program that loads it, which must export them
// (the podium command does; link programs of your own with `podium_loads_plugins(TARGET)` of the
// CMake package). Build plugins with its `podium_add_plugin(NAME SOURCES...)`, which does not link
// Podium. A plugin works only with the version of Podium that it was compiled for.
//
// A program that has its models compiled in needs no plugin: it calls register_model()
// (nn/models.h), register_dataset() (data/datasets/dataset_registry.h) and register_operation()
// (ops/op_registry.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/version.h"
#include "data/datasets/dataset_registry.h"
#include "graph/op_def.h"
#include "nn/models.h"
#include "nn/network.h"
#include "ops/op_registry.h"
#include "train/plugin/check_operation.h"
#include "train/recipe/recipe.h"

namespace podium {

// What a plugin registers. Each function throws UserError if the name is taken or data are missing.
class Registry {
 public:
  // register_model().
  void model(const std::string& name, const std::string& description, Model build);
  // register_dataset().
  void dataset(DatasetInfo info);
  // register_operation(). `op` must live as long as the program; `check` states how `podium plugin`
  // tests it.
  void operation(const OpDef& op, OperationCheckOptions check = {});

  // An operation and how it is tested.
  struct Operation {
    const OpDef* op = nullptr;
    OperationCheckOptions check;
  };
  const std::vector<std::string>& models() const { return models_; }
  const std::vector<std::string>& datasets() const { return datasets_; }
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<std::string> models_, datasets_;
  std::vector<Operation> operations_;
};

// A loaded plugin and what it registered.
struct LoadedPlugin {
  std::filesystem::path path;  // absolute
  std::string sha256;          // of the file
  Registry registered;
};

// Loads a plugin for the lifetime of the process; does nothing if it is loaded already. Throws
// UserError(kUsage), which names the file, if it does not exist, is not a shared object, has no
// entry point, was compiled for another version, or its registration failed. Call it before other
// threads look up names.
const LoadedPlugin& load_plugin(const std::filesystem::path& file);

// In the order in which they were loaded.
const std::deque<LoadedPlugin>& loaded_plugins();

// recipe.toml of a run's folder, as read_recipe() reads it. If that fails and the run was made with
// plugins that are not loaded, the error names them. They are not loaded automatically, because
// looking at a folder must not run code that the folder names.
Recipe read_run_recipe(const std::filesystem::path& run,
                       const std::vector<std::string>& overrides = {},
                       ModelNames models = ModelNames::kRegistered);

// One line for each loaded plugin that differs from the file of the same name that the run's last
// start used: its results may differ.
std::vector<std::string> changed_plugins(const std::filesystem::path& run);

// What a plugin was compiled for. The layout of the classes that it shares with the program is
// compared, so that plugins built from another commit are refused too.
struct PluginBuild {
  std::uint64_t bytes = 0;  // of this struct
  char version[56] = {};
  std::uint64_t layout = 0;
};

constexpr std::uint64_t plugin_layout() {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::size_t size :
       {sizeof(Attributes), sizeof(Node), sizeof(Graph), sizeof(Tensor), sizeof(OpDef),
        sizeof(GradientContext), sizeof(InferContext), sizeof(Parameter), sizeof(Statistic),
        sizeof(Network), sizeof(ModelInfo), sizeof(ImageSet), sizeof(DatasetOptions),
        sizeof(DatasetInfo), sizeof(Registry), sizeof(OperationCheckOptions), sizeof(std::string),
        sizeof(long double)})
    hash = (hash ^ size) * 1099511628211ULL;
  return hash;
}

constexpr PluginBuild this_plugin_build() {
  PluginBuild build{.bytes = sizeof(PluginBuild), .version = {}, .layout = plugin_layout()};
  for (std::size_t i = 0; i < sizeof kVersion; ++i) build.version[i] = kVersion[i];
  return build;
}

}  // namespace podium

// Used once in a plugin, before the body of its registration.
#define PODIUM_PLUGIN(registry)                                                    \
  extern "C" __attribute__((visibility("default"))) const ::podium::PluginBuild*   \
  podium_plugin_build() {                                                          \
    static constexpr ::podium::PluginBuild kBuild = ::podium::this_plugin_build(); \
    return &kBuild;                                                                \
  }                                                                                \
  extern "C" __attribute__((visibility("default"))) void podium_plugin_register(   \
      [[maybe_unused]] ::podium::Registry& registry)
