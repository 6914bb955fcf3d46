#include "cli/data/data_tokenize.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "cli/progress_line.h"
#include "cli/signals.h"
#include "data/text/text_options.h"
#include "data/text/tokenize.h"
#include "files/byte_text.h"
#include "train/machine/memory.h"

namespace podium {
namespace {

struct TokenizeArguments {
  std::vector<std::string> files;
  TokenizeOptions options;
  std::int64_t shard_mib = 64;
  bool json = false;
};

ExitCode tokenize_texts(const TokenizeArguments& arguments) {
  TokenizeOptions options = arguments.options;
  options.shard_bytes = arguments.shard_mib << 20;
  if (options.threads == 0) options.threads = usable_cores();
  const auto start = Clock::now();
  ProgressLine progress;
  const Tokenized made = tokenize(
      arguments.files, options,
      [&](std::int64_t done, std::int64_t all) {
        progress(cat(with_commas(done), " of ", count_text(all, "shard")));
      },
      StopToken(stop_request()));
  progress.end();
  const double seconds = seconds_since(start);
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"out", options.out},       {"shards", made.shards},
                                         {"kept_shards", made.kept}, {"tokens", made.tokens},
                                         {"text_bytes", made.bytes}, {"seconds", seconds}};
    std::cout << json_text(json) << "\n";
    return ExitCode::kDone;
  }
  std::cout << options.out << ": " << count_text(made.shards, "shard");
  if (made.kept > 0) std::cout << ", of which " << with_commas(made.kept) << " were there";
  if (made.kept < made.shards)
    std::cout << "; " << count_text(made.tokens, "token") << " of " << format_bytes(made.bytes)
              << " of text, "
              << format_bytes(static_cast<std::int64_t>(static_cast<double>(made.bytes) / seconds))
              << "/s";
  std::cout << "\nto train on them: podium train text:" << options.out
            << (options.tokenizer == kByteTokens ? " data.vocabulary=256" : "") << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_tokenize_command(CLI::App& data, CommandLine& line) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = add_command(
      data, line, "tokenize", "Makes shards of tokens from texts; called again, it goes on",
      {"podium data tokenize book.txt --tokenizer gpt2/ --out shards",
       "podium data tokenize corpus/ --tokenizer ./tokenizer.json --out shards --held-out 0.001"},
      [arguments] { return tokenize_texts(*arguments); });
  command
      ->add_option("TEXT", arguments->files,
                   "Files of text, each a document; of a .jsonl, the \"text\" of each line; or "
                   "folders of them")
      ->required();
  command
      ->add_option(
          "--tokenizer", arguments->options.tokenizer,
          "bytes, a tokenizer.json, a .model of SentencePiece, or a folder with encoder.json and "
          "vocab.bpe")
      ->required();
  command->add_option("--out", arguments->options.out, "Folder for the shards")->required();
  command
      ->add_option("--held-out", arguments->options.held_out,
                   "Share of the text, at its end, for shards that are evaluated")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command->add_option("--separator", arguments->options.separator,
                      "Where a text has this, a document ends: \"<|endoftext|>\"");
  command->add_option("--shard-mib", arguments->shard_mib, "Text of a shard, in MiB")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->capture_default_str();
  command->add_option("--threads", arguments->options.threads, "Threads; default: one per core")
      ->check(between(1, most_threads()), "COUNT")
      ->default_str("0");
  arguments->options.threads = 0;
  command->add_flag("--json", arguments->json, "Write JSON");
}

}  // namespace podium
