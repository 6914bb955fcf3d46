// podium seal: a receipt of what a run's folder holds.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "files/file_io.h"
#include "trust/receipt.h"

namespace podium {
namespace {

struct SealArguments {
  std::string run, out, key;
  bool force = false;
};

ExitCode seal(const SealArguments& arguments) {
  const std::string out = arguments.out.empty()
                              ? (std::filesystem::path(arguments.run) / kReceiptFile).string()
                              : arguments.out;
  require_writable(out, "--out", arguments.force);
  const Receipt receipt = seal_run(arguments.run, StopToken(stop_request()));
  replace_text(out, receipt_text(receipt));
  if (!arguments.key.empty()) sign_file(out, arguments.key);
  std::cout << printable(out) << ": " << count_text(std::ssize(receipt.files), "file") << ", "
            << count_text(receipt.hashes, "hash", "hashes") << ", root " << receipt.root << "\n";
  if (!arguments.key.empty()) std::cout << printable(out) << ".sig: signed\n";
  return ExitCode::kDone;
}

}  // namespace

void add_seal_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<SealArguments>();
  CLI::App* command = add_command(
      app, line, "seal",
      "Writes a receipt of a run: hashes of all that its folder holds, in one small file",
      {"podium seal runs/mnist-seed0", "podium seal runs/a --sign ~/.ssh/id_ed25519",
       "podium verify runs/a/receipt.json"},
      [arguments] { return seal(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("--out", arguments->out, "File to write (default: RUN/receipt.json)");
  command->add_option("--sign", arguments->key,
                      "Also sign it with this SSH key, by ssh-keygen, in FILE.sig");
  add_force_flag(*command, arguments->force);
}

}  // namespace podium
