// podium plugin: what a plugin registers, and whether its operations do what training takes for
// granted.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/datasets/dataset.h"
#include "nn/models.h"
#include "train/plugin/plugin.h"

namespace podium {
namespace {

ExitCode show_plugin(const std::filesystem::path& file) {
  const LoadedPlugin& plugin = load_plugin(file);
  const Registry& registered = plugin.registered;
  Table table({"KIND", "NAME", "WHAT IT IS"});
  for (const std::string& name : registered.models())
    table.add({"model", name, find_model(name).description});
  for (const std::string& name : registered.datasets())
    table.add({"dataset", name, find_dataset(name).description});
  ExitCode code = ExitCode::kDone;
  for (const Registry::Operation& operation : registered.operations()) {
    const std::vector<std::string> findings = check_operation(*operation.op, operation.check);
    const std::string gradient =
        operation.op->gradient == nullptr ? "no gradient" : "with a gradient";
    table.add({"operation", operation.op->name,
               cat(gradient, findings.empty() ? ", checked" : ", not sound")});
    for (const std::string& finding : findings) complain(finding);
    if (!findings.empty()) code = ExitCode::kUsage;
  }
  std::cout << printable(plugin.path.string()) << ", compiled for Podium " << kVersion << "\n"
            << table.text();
  return code;
}

}  // namespace

void add_plugin_command(CLI::App& app, CommandLine& line) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = add_command(
      app, line, "plugin", "Shows what a plugin registers, and checks its operations",
      {"podium plugin build/my_plugin.so", "podium train my.toml --plugin build/my_plugin.so"},
      [file] { return show_plugin(*file); });
  command->add_option("FILE", *file, "The plugin's shared object")->required();
}

}  // namespace podium
