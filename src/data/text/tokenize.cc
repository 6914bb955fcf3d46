#include "data/text/tokenize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "data/text/text_options.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"
#include "files/checksum.h"
#include "files/file_io.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettingsFile = ".tokenize.json";
// A place to cut is looked for so far before the one that is wished for.
constexpr std::int64_t kSearch = 1 << 20;

struct InputText {
  std::string file;
  std::int64_t size = 0;
  bool is_lines = false;  // .jsonl
};

// Bytes [begin, end) of a text.
struct Slice {
  const InputText* text = nullptr;
  std::int64_t begin = 0, end = 0;
  std::string shard;  // its file
};

std::vector<InputText> texts_of(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code error;
    PODIUM_REQUIRE(fs::exists(name, error), ExitCode::kData, "the text ", name,
                   " was not found; name files of text, or folders of them");
    if (!fs::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(name))
      if (entry.is_regular_file(error) && !entry.path().filename().string().starts_with('.'))
        inside.push_back(entry.path().string());
    std::ranges::sort(inside);
    std::ranges::move(inside, std::back_inserter(files));
  }
  std::vector<InputText> texts;
  for (const std::string& file : files) {
    const InputFile input(file);
    if (input.size() > 0)
      texts.push_back(
          {file, static_cast<std::int64_t>(input.size()), fs::path(file).extension() == ".jsonl"});
  }
  PODIUM_REQUIRE(!texts.empty(), ExitCode::kData, "there is no text in ", join_words(names));
  return texts;
}

std::string read_part(const InputText& text, std::int64_t begin, std::int64_t end) {
  std::string part(static_cast<std::size_t>(end - begin), '\0');
  InputFile(text.file).read(static_cast<std::uint64_t>(begin),
                            std::as_writable_bytes(std::span(part)));
  return part;
}

// The last place up to `wish` where the text may be cut, after `begin`; its end if there is none.
std::int64_t cut_before(const InputText& text, std::int64_t begin, std::int64_t wish,
                        const TokenizeOptions& options, const Tokenizer& tokenizer) {
  if (wish >= text.size) return text.size;
  const std::int64_t from = std::max(begin, wish - kSearch);
  const std::string part = read_part(text, from, std::min(text.size, wish + 64));
  const auto most = static_cast<std::size_t>(wish - from);
  std::size_t at = 0;
  if (text.is_lines || !options.separator.empty()) {
    const std::string end = text.is_lines ? "\n" : options.separator;
    const std::size_t found = std::string_view(part).substr(0, most).rfind(end);
    at = found == std::string_view::npos ? 0 : found + end.size();
  } else {
    at = tokenizer.cut(part, most);
  }
  return at > 0 ? from + static_cast<std::int64_t>(at) : text.size;
}

std::string shard_name(const char* part, std::int64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, 5 - std::min<std::size_t>(5, digits.size()), '0');
  return cat(part, "_", digits, ".npy");
}

// The texts in slices of about options.shard_bytes. Those after the share to train on are held out.
std::vector<Slice> slices_of(const std::vector<InputText>& texts, const TokenizeOptions& options,
                             const Tokenizer& tokenizer) {
  std::int64_t all = 0;
  for (const InputText& text : texts) all += text.size;
  auto kept =
      static_cast<std::int64_t>(std::floor(static_cast<double>(all) * (1 - options.held_out)));
  std::vector<Slice> slices;
  std::int64_t before = 0, train = 0, val = 0;
  for (const InputText& text : texts) {
    for (std::int64_t begin = 0; begin < text.size;) {
      const std::int64_t left = kept - (before + begin);
      std::int64_t wish = begin + options.shard_bytes;
      if (left > 0) wish = std::min(wish, begin + left);
      const std::int64_t end = cut_before(text, begin, wish, options, tokenizer);
      const bool is_train = left > 0;
      // The last slice to train on ends where the text may be cut.
      if (is_train && wish == begin + left && wish < text.size) kept = before + end;
      slices.push_back(
          {&text, begin, end, is_train ? shard_name("train", train++) : shard_name("val", val++)});
      begin = end;
    }
    before += text.size;
  }
  PODIUM_REQUIRE(val > 0 || options.held_out == 0, ExitCode::kData, texts.back().file,
                 ": the text cannot be cut where the part begins that is held out; give one of "
                 "several files, or --held-out 0");
  return slices;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The documents of a slice, and whether the last one ends in it.
std::vector<Document> documents_of(const Slice& slice, const TokenizeOptions& options) {
  const std::string text = read_part(*slice.text, slice.begin, slice.end);
  const std::string& file = slice.text->file;
  std::vector<Document> documents;
  if (!slice.text->is_lines && options.separator.empty()) return {{file, text}};
  const std::string end = slice.text->is_lines ? "\n" : options.separator;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(end, at), text.size());
    const std::string part = text.substr(at, found - at);
    const std::string place = cat(file, ": byte ", slice.begin + static_cast<std::int64_t>(at));
    at = found + end.size();
    if (!slice.text->is_lines) {
      documents.push_back({file, part});
    } else if (part.find_first_not_of(" \t\r") != std::string::npos) {
      const auto json = nlohmann::json::parse(part, nullptr, false);
      const bool has_text = json.is_object() && json.contains("text") && json["text"].is_string();
      PODIUM_REQUIRE(has_text, ExitCode::kData, place,
                     ": the line is no JSON object with a \"text\"; a .jsonl has one on each line");
      documents.push_back({file, json["text"].get<std::string>()});
    }
  }
  return documents;
}

}  // namespace

Tokenized tokenize(const std::vector<std::string>& files, const TokenizeOptions& options,
                   const std::function<void(std::int64_t, std::int64_t)>& made, StopToken stop) {
  PODIUM_REQUIRE(options.tokenizer == kByteTokens || is_tokenizer_path(options.tokenizer),
                 ExitCode::kUsage, "--tokenizer ", options.tokenizer,
                 ": shards need a vocabulary that does not come from the text: bytes, or the path "
                 "of a tokenizer, as ./tokenizer.json");
  const std::shared_ptr<const Tokenizer> tokenizer = is_tokenizer_path(options.tokenizer)
                                                         ? open_tokenizer(options.tokenizer, "")
                                                         : byte_tokenizer();
  const std::vector<InputText> texts = texts_of(files);
  const std::vector<Slice> slices = slices_of(texts, options, *tokenizer);
  const bool has_documents = texts.size() > 1 || texts[0].is_lines || !options.separator.empty();
  PODIUM_REQUIRE(options.separator.empty() || tokenizer->separator(), ExitCode::kUsage,
                 "--separator ", options.separator, ": the tokenizer has no token for it");

  // What the shards depend on.
  nlohmann::ordered_json settings = {{"tokenizer", nlohmann::ordered_json::array()},
                                     {"held_out", options.held_out},
                                     {"shard_bytes", options.shard_bytes},
                                     {"separator", options.separator},
                                     {"texts", nlohmann::ordered_json::array()}};
  for (const std::string& file : tokenizer->files())
    settings["tokenizer"].push_back(sha256(bytes_of(read_text(file).value_or(""))));
  for (const InputText& text : texts) settings["texts"].push_back({text.file, text.size});
  const fs::path out = options.out;
  const std::string text_of_settings = settings.dump(1) + "\n";
  const std::optional<std::string> before = read_text(out / kSettingsFile);
  std::error_code error;
  PODIUM_REQUIRE(
      before ? *before == text_of_settings : !fs::exists(out, error) || fs::is_empty(out),
      ExitCode::kData, options.out,
      before ? ": has shards of other texts or options (.tokenize.json); name another --out"
             : " is not empty, and has no shards that were begun; name another --out");
  make_folders(out);
  replace_text(out / kUnfinishedShards, "");
  replace_text(out / kSettingsFile, text_of_settings);
  if (!tokenizer->files().empty()) {
    make_folders(out / kTokenizerFolder);
    for (const std::string& file : tokenizer->files())
      replace_text(out / kTokenizerFolder / fs::path(file).filename(),
                   read_text(file).value_or(""));
  }

  Tokenized result{.shards = std::ssize(slices)};
  std::mutex mutex;
  std::int64_t done = 0;
  ThreadPool pool(options.threads);
  pool.run(static_cast<int>(slices.size()), [&](int part, int) {
    stop.check();
    const Slice& slice = slices[static_cast<std::size_t>(part)];
    const fs::path shard = out / slice.shard;
    const bool is_there = fs::exists(shard);
    std::vector<std::int32_t> tokens;
    if (!is_there) {
      const std::vector<Document> documents = documents_of(slice, options);
      for (std::size_t i = 0; i < documents.size(); ++i) {
        tokenizer->encode(documents[i].text, documents[i].source,
                          [&tokens](std::int32_t token) { tokens.push_back(token); });
        // A text that goes on in the next shard does not end here.
        const bool ends = slice.text->is_lines || slice.end == slice.text->size ||
                          (!options.separator.empty() && i + 1 < documents.size()) ||
                          (!options.separator.empty() && slice.end < slice.text->size);
        if (has_documents && ends && tokenizer->separator())
          tokens.push_back(*tokenizer->separator());
      }
      write_shard(shard, tokens, tokenizer->vocabulary());
    }
    const std::lock_guard lock(mutex);
    result.kept += is_there ? 1 : 0;
    result.tokens += std::ssize(tokens);
    result.bytes += is_there ? 0 : slice.end - slice.begin;
    made(++done, result.shards);
  });
  fs::remove(out / kUnfinishedShards);
  sync_folder(out);
  return result;
}

}  // namespace podium
