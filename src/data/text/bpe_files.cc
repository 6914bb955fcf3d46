// The files of byte-pair encodings: GPT-2's, and Hugging Face's tokenizer.json.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/text/bpe.h"
#include "data/text/utf8.h"
#include "files/file_io.h"

namespace podium {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostVocabularyBytes = std::uint64_t{256} << 20;
constexpr std::int64_t kMostTokens = 1 << 22;

// Both formats spell a byte as a character that can be seen: the byte itself where it is one in
// Latin-1, and those from U+0100 on, in the order of the bytes, for all others.
class SpelledBytes {
 public:
  SpelledBytes() {
    std::uint32_t other = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      bytes_.emplace(seen ? byte : other++, static_cast<char>(byte));
    }
  }
  // False: it has a character that spells no byte.
  bool read(std::string_view spelled, std::string& bytes) const {
    bytes.clear();
    while (!spelled.empty()) {
      const std::size_t length = utf8_length(spelled);
      if (length == 0 || length > 2) return false;
      const auto first = static_cast<unsigned char>(spelled[0]);
      const std::uint32_t code =
          length == 1 ? first
                      : (first & 0x1Fu) << 6 | (static_cast<unsigned char>(spelled[1]) & 0x3Fu);
      const auto found = bytes_.find(code);
      if (found == bytes_.end()) return false;
      bytes += found->second;
      spelled.remove_prefix(length);
    }
    return true;
  }

 private:
  std::unordered_map<std::uint32_t, char> bytes_;
};

Json parsed(std::string_view text, const std::string& file) {
  Json json = Json::parse(text, nullptr, false);
  PODIUM_REQUIRE(!json.is_discarded() && json.is_object(), ExitCode::kData, file,
                 ": is no JSON object; it was cut off or damaged, so download it again");
  return json;
}

// Puts `text` at its number.
void put_token(BpeModel& model, const Json& number, std::string text, const std::string& file) {
  const std::int64_t id = number.is_number_integer() ? number.get<std::int64_t>() : -1;
  PODIUM_REQUIRE(id >= 0 && id < kMostTokens, ExitCode::kData, file, ": the token \"", text,
                 "\" has no number from 0 to ", kMostTokens - 1);
  if (id >= std::ssize(model.tokens)) {
    model.tokens.resize(static_cast<std::size_t>(id) + 1);
    model.special.resize(model.tokens.size(), true);
  }
  model.tokens[static_cast<std::size_t>(id)] = std::move(text);
}

// {"token": number}. Numbers that no token has are special tokens without a text.
void read_vocabulary(BpeModel& model, const Json& vocabulary, const std::string& file) {
  const SpelledBytes spelled;
  PODIUM_REQUIRE(vocabulary.is_object(), ExitCode::kData, file, ": has no object of tokens");
  for (const auto& [key, number] : vocabulary.items()) {
    std::string bytes;
    const bool is_text = spelled.read(key, bytes);
    put_token(model, number, is_text ? bytes : key, file);
    model.special[number.get<std::size_t>()] = !is_text;
  }
}

class MergeReader {
 public:
  MergeReader(BpeModel& model, const std::string& file) : model_(model), file_(file) {
    for (std::size_t i = 0; i < model.tokens.size(); ++i)
      if (!model.special[i]) ids_.emplace(model.tokens[i], static_cast<std::int32_t>(i));
  }
  void add(std::string_view left, std::string_view right, const std::string& place) {
    std::string a, b;
    PODIUM_REQUIRE(spelled_.read(left, a) && spelled_.read(right, b), ExitCode::kData, file_, ": ",
                   place, ": \"", left, "\" and \"", right, "\" are no pair of tokens");
    const auto id = [&](const std::string& token) {
      const auto found = ids_.find(token);
      PODIUM_REQUIRE(found != ids_.end(), ExitCode::kData, file_, ": ", place, ": merges \"", left,
                     "\" and \"", right,
                     "\", but they or what they become are not in the vocabulary; use files that "
                     "belong together");
      return found->second;
    };
    const std::int32_t left_id = id(a), right_id = id(b), merged = id(a + b);
    model_.merges.push_back({left_id, right_id, merged});
  }

 private:
  BpeModel& model_;
  const std::string& file_;
  const SpelledBytes spelled_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

// A spelled token has no blank in it.
void add_line(MergeReader& merges, std::string_view line, const std::string& place,
              const std::string& file) {
  const std::size_t blank = line.find(' ');
  PODIUM_REQUIRE(blank != std::string_view::npos && blank > 0 && blank + 1 < line.size(),
                 ExitCode::kData, file, ": ", place, ": \"", line,
                 "\" is not two tokens with a blank between them");
  merges.add(line.substr(0, blank), line.substr(blank + 1), place);
}

[[noreturn]] void unsupported(const std::string& file, const std::string& what) {
  throw UserError(cat(file, ": ", what,
                      "; Podium reads byte-level byte-pair encoding (model BPE, no normalizer, "
                      "pre-tokenizer ByteLevel or Split by a Regex), as GPT-2 and Llama 3 have"),
                  ExitCode::kData);
}

std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}
bool flag_in(const Json& json, const char* key, bool absent) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : absent;
}

// Adds the patterns of one step of cutting text into pieces.
void read_cutter(const Json& step, std::vector<std::string>& patterns, bool& is_byte_level,
                 const std::string& file) {
  const std::string type = text_in(step, "type");
  if (type == "Sequence") {
    const auto steps = step.find("pretokenizers");
    if (steps == step.end() || !steps->is_array()) unsupported(file, "its Sequence has no steps");
    for (const Json& one : *steps) {
      if (!one.is_object()) unsupported(file, "its Sequence has a step that is no object");
      if (text_in(one, "type") == "Sequence") unsupported(file, "it has a Sequence in a Sequence");
      read_cutter(one, patterns, is_byte_level, file);
    }
  } else if (type == "ByteLevel") {
    if (flag_in(step, "add_prefix_space", true))
      unsupported(file, "it adds a blank before the text (add_prefix_space)");
    if (flag_in(step, "use_regex", true)) patterns.emplace_back(kGpt2Pattern);
    is_byte_level = true;
  } else if (type == "Split") {
    const auto pattern = step.find("pattern");
    const std::string expression =
        pattern != step.end() && pattern->is_object() ? text_in(*pattern, "Regex") : "";
    if (expression.empty()) unsupported(file, "it splits by something else than a Regex");
    if (text_in(step, "behavior") != "Isolated" || flag_in(step, "invert", false))
      unsupported(file, cat("it splits with the behavior \"", text_in(step, "behavior"), "\""));
    patterns.push_back(expression);
  } else {
    unsupported(file, cat("its pre-tokenizer is \"", type, "\""));
  }
}

}  // namespace

BpeModel parse_bpe(std::string_view encoder, std::string_view merges,
                   const std::string& encoder_file, const std::string& merges_file) {
  BpeModel model;
  read_vocabulary(model, parsed(encoder, encoder_file), encoder_file);
  // <|endoftext|> is spelled like a text.
  const auto end = std::ranges::find(model.tokens, "<|endoftext|>");
  if (end != model.tokens.end())
    model.special[static_cast<std::size_t>(end - model.tokens.begin())] = true;
  MergeReader reader(model, merges_file);
  std::int64_t line = 0;
  while (!merges.empty()) {
    const std::size_t size = std::min(merges.find('\n'), merges.size());
    std::string_view text = merges.substr(0, size);
    merges.remove_prefix(std::min(size + 1, merges.size()));
    ++line;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() || (line == 1 && text.starts_with("#version"))) continue;
    add_line(reader, text, cat("line ", line), merges_file);
  }
  return model;
}

std::shared_ptr<const Tokenizer> open_bpe_files(const std::string& encoder,
                                                const std::string& merges) {
  const std::string vocabulary = read_text(encoder, kMostVocabularyBytes).value_or(""),
                    lines = read_text(merges, kMostVocabularyBytes).value_or("");
  return bpe_tokenizer(parse_bpe(vocabulary, lines, encoder, merges), encoder, {encoder, merges});
}

BpeModel parse_bpe_json(std::string_view text, const std::string& file) {
  const Json json = parsed(text, file);
  const auto part = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() ? *found : Json();
  };
  const Json own = part("model"), cutter = part("pre_tokenizer"), normalizer = part("normalizer");
  if (!own.is_object()) unsupported(file, "it has no model");
  const std::string type = text_in(own, "type");
  if (!type.empty() && type != "BPE") unsupported(file, cat("its model is \"", type, "\""));
  if (flag_in(own, "byte_fallback", false))
    unsupported(file,
                "its model is BPE of characters (byte_fallback), as SentencePiece makes them");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_in(own, key).empty()) unsupported(file, cat("its model has a \"", key, "\""));
  if (!normalizer.is_null())
    unsupported(file, cat("its normalizer is \"",
                          normalizer.is_object() ? text_in(normalizer, "type") : "", "\""));
  if (!cutter.is_object()) unsupported(file, "it has no pre-tokenizer");

  BpeModel model;
  model.whole_pieces_first = flag_in(own, "ignore_merges", false);
  model.patterns.clear();
  bool is_byte_level = false;
  read_cutter(cutter, model.patterns, is_byte_level, file);
  if (!is_byte_level) unsupported(file, "its pre-tokenizer has no ByteLevel");
  read_vocabulary(model, own.contains("vocab") ? own["vocab"] : Json(), file);
  const Json added = part("added_tokens");
  if (added.is_array()) {
    for (const Json& token : added) {
      if (!token.is_object()) unsupported(file, "one of its added_tokens is no object");
      const Json id = token.contains("id") ? token["id"] : Json();
      put_token(model, id, text_in(token, "content"), file);
      model.special[id.get<std::size_t>()] = true;
    }
  }
  MergeReader reader(model, file);
  const Json merges = own.contains("merges") ? own["merges"] : Json();
  PODIUM_REQUIRE(merges.is_array(), ExitCode::kData, file, ": its model has no list of merges");
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    const std::string place = cat("merge ", i + 1);
    if (merge.is_string()) {
      add_line(reader, merge.get_ref<const std::string&>(), place, file);
    } else {
      PODIUM_REQUIRE(
          merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
          ExitCode::kData, file, ": ", place, " is not two tokens");
      reader.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
                 place);
    }
  }
  return model;
}

std::shared_ptr<const Tokenizer> open_bpe_json(const std::string& file) {
  return bpe_tokenizer(parse_bpe_json(read_text(file, kMostVocabularyBytes).value_or(""), file),
                       file, {file});
}

}  // namespace podium
