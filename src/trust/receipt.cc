#include "trust/receipt.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "base/error.h"
#include "base/json_text.h"
#include "base/numerics/contract.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "files/checksum.h"
#include "files/file_io.h"
#include "files/program.h"
#include "podium_version.h"
#include "report/history.h"
#include "train/loop/checkpoint.h"
#include "train/machine/environment.h"
#include "train/plugin/plugin.h"
#include "train/recipe/recipe.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFormat = "podium-receipt";
constexpr int kReceiptVersion = 1;
constexpr std::string_view kFiles[] = {"recipe.toml",    "environment.json", "resolved.txt",
                                       "hashes.jsonl",   "metrics.jsonl",    "failures.jsonl",
                                       "operations.json"};
constexpr std::string_view kFolders[] = {"checkpoints", "tokenizer"};

std::string sha256_of(char prefix, std::string_view bytes) {
  Checksum sum(ChecksumKind::kSha256);
  sum.update({reinterpret_cast<const std::uint8_t*>(&prefix), 1});
  sum.update({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return sum.finish();
}

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string root_of(std::span<const std::string> hashes) {
  if (hashes.size() == 1) return hashes[0];
  std::size_t left = 1;
  while (left * 2 < hashes.size()) left *= 2;
  return sha256_of(1,
                   bytes_of(root_of(hashes.first(left))) + bytes_of(root_of(hashes.subspan(left))));
}

SealedFile seal_file(const fs::path& run, const fs::path& file, StopToken stop) {
  const InputFile input(file, stop);
  SealedFile sealed{
      .path = file.lexically_relative(run).generic_string(), .bytes = input.size(), .sha256 = {}};
  Checksum sum(ChecksumKind::kSha256);
  std::vector<std::byte> part(std::min<std::uint64_t>(input.size(), 1 << 20));
  for (std::uint64_t at = 0; at < input.size(); at += part.size()) {
    part.resize(std::min<std::uint64_t>(part.size(), input.size() - at));
    input.read(at, part);
    sum.update({reinterpret_cast<const std::uint8_t*>(part.data()), part.size()});
  }
  sealed.sha256 = sum.finish();
  return sealed;
}

std::vector<SealedFile> seal_files(const fs::path& run, StopToken stop) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const std::string_view name : kFiles)
    if (fs::is_regular_file(run / name, error)) files.push_back(run / name);
  for (const std::string_view name : kFolders) {
    for (fs::recursive_directory_iterator entry(run / name, error), end; !error && entry != end;
         entry.increment(error))
      if (entry->is_regular_file(error)) files.push_back(entry->path());
    // What cannot be listed must not be left out in silence.
    std::error_code ignored;
    if (error && fs::exists(run / name, ignored)) throw_io_error(run / name, "list", error.value());
  }
  std::vector<SealedFile> sealed;
  for (const fs::path& file : files) sealed.push_back(seal_file(run, file, stop));
  std::ranges::sort(sealed, {}, &SealedFile::path);
  return sealed;
}

// `hashes` is the text of hashes.jsonl.
std::string root_of(std::string_view hashes, const std::vector<SealedFile>& files) {
  const std::vector<std::string_view> lines = lines_of(hashes);
  std::vector<std::string> leaves(lines.begin(), lines.end());
  for (const SealedFile& file : files)
    leaves.push_back(cat(file.path, " ", file.bytes, " ", file.sha256));
  return merkle_root(leaves);
}

std::string metadata_of(const Checkpoint& checkpoint, const char* key) {
  const auto found = checkpoint.metadata.find(key);
  return found == checkpoint.metadata.end() ? "" : found->second;
}

}  // namespace

std::string merkle_root(const std::vector<std::string>& leaves) {
  if (leaves.empty()) return sha256(std::string_view());
  std::vector<std::string> hashes;
  for (const std::string& leaf : leaves) hashes.push_back(sha256_of(0, leaf));
  return root_of(hashes);
}

Receipt seal_run(const fs::path& run, StopToken stop) {
  require_run(run);
  const RunFolder lock(run);  // nobody is training it
  const Checkpoint last = last_checkpoint(run);
  Receipt receipt;
  receipt.podium = PODIUM_VERSION, receipt.commit = PODIUM_COMMIT;
  receipt.date = utc_date();
  const Recipe recipe = read_run_recipe(run, {}, ModelNames::kRecorded);
  receipt.recipe = recipe.name;
  receipt.kind = metadata_of(last, kKindKey);
  receipt.training_data = metadata_of(last, kDataKey);
  receipt.evaluation_data = metadata_of(last, kEvaluationDataKey);
  receipt.contract = numerical_contract(precision_of(recipe));
  receipt.steps = last.step;
  const fs::path hash_file = run / "hashes.jsonl";
  const std::string text = read_text(hash_file).value_or("");
  receipt.hashes = std::ssize(lines_of(text));
  if (const StepHashes hashes = parse_hashes(text, hash_file.string()); !hashes.empty())
    receipt.last_hash = hash_text(hashes.back().second);
  receipt.files = seal_files(run, stop);
  receipt.root = root_of(text, receipt.files);
  return receipt;
}

std::string receipt_text(const Receipt& receipt) {
  auto files = ordered_json::array();
  for (const SealedFile& file : receipt.files)
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  const ordered_json json = {{"format", kFormat},
                             {"version", kReceiptVersion},
                             {"podium", receipt.podium},
                             {"commit", receipt.commit},
                             {"date", receipt.date},
                             {"recipe", receipt.recipe},
                             {"numerical_contract", receipt.contract},
                             {"kind", receipt.kind},
                             {"training_data", receipt.training_data},
                             {"evaluation_data", receipt.evaluation_data},
                             {"steps", receipt.steps},
                             {"last_hash", receipt.last_hash},
                             {"hashes", receipt.hashes},
                             {"root", receipt.root},
                             {"files", files}};
  return json_text(json, 2) + "\n";
}

Receipt parse_receipt(std::string_view text, const std::string& source) {
  const auto fail = [&](const std::string& what) {
    throw UserError(
        cat(source, ": ", what, "; a receipt is the file that `podium seal RUN` writes, unchanged"),
        ExitCode::kData);
  };
  Receipt receipt;
  try {
    const auto json = nlohmann::json::parse(text);
    if (!json.is_object() || json.value("format", "") != kFormat) fail("it is no receipt");
    if (const int version = json.at("version").get<int>(); version != kReceiptVersion)
      fail(
          cat("it is a receipt of version ", version, ", and this Podium reads ", kReceiptVersion));
    const auto take = [&](const char* name, auto& value) { json.at(name).get_to(value); };
    take("podium", receipt.podium), take("commit", receipt.commit), take("date", receipt.date);
    take("recipe", receipt.recipe), take("numerical_contract", receipt.contract);
    take("kind", receipt.kind), take("training_data", receipt.training_data);
    take("evaluation_data", receipt.evaluation_data), take("steps", receipt.steps);
    take("last_hash", receipt.last_hash), take("hashes", receipt.hashes);
    take("root", receipt.root);
    for (const auto& file : json.at("files")) {
      SealedFile& sealed = receipt.files.emplace_back();
      file.at("path").get_to(sealed.path), file.at("bytes").get_to(sealed.bytes);
      file.at("sha256").get_to(sealed.sha256);
      const fs::path path = sealed.path;
      if (path.is_absolute() || path.lexically_normal() != path ||
          path.generic_string().starts_with(".."))
        fail(cat("\"", sealed.path, "\" is not a path within a run's folder"));
    }
  } catch (const nlohmann::json::exception& error) {
    fail(cat("it cannot be read: ", error.what()));
  }
  return receipt;
}

std::vector<std::string> check_receipt(const Receipt& receipt, const fs::path& run,
                                       StopToken stop) {
  require_run(run);
  std::vector<std::string> problems;
  std::map<std::string, SealedFile> found;
  for (SealedFile& file : seal_files(run, stop)) found.emplace(file.path, file);
  for (const SealedFile& sealed : receipt.files) {
    const auto own = found.find(sealed.path);
    if (own == found.end())
      problems.push_back(cat(sealed.path, ": it is missing"));
    else if (own->second.bytes != sealed.bytes)
      problems.push_back(cat(sealed.path, ": it has ", with_commas(own->second.bytes),
                             " bytes, and had ", with_commas(sealed.bytes)));
    else if (own->second.sha256 != sealed.sha256)
      problems.push_back(cat(sealed.path, ": its contents were changed"));
    if (own != found.end()) found.erase(own);
  }
  for (const auto& [path, file] : found)
    problems.push_back(cat(path, ": it was not there when the run was sealed"));
  const std::string root = root_of(read_text(run / "hashes.jsonl").value_or(""), receipt.files);
  if (root != receipt.root)
    problems.push_back(
        cat("root: that of these files is ", root, ", and the receipt has ", receipt.root));
  return problems;
}

// --- signatures

namespace {

constexpr const char* kNamespace = "podium-receipt";
constexpr const char* kRemedy = "; install OpenSSH (openssh-client), version 8.2 or newer";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

void sign_file(const fs::path& file, const std::string& key) {
  std::error_code ignored;
  fs::remove(file.string() + ".sig", ignored);  // ssh-keygen would ask
  const ProgramEnd end =
      run_program({"ssh-keygen", "-Y", "sign", "-f", key, "-n", kNamespace, file.string()},
                  {.keep_text = true}, kRemedy);
  PODIUM_REQUIRE(end.code == 0, ExitCode::kUsage, "ssh-keygen did not sign ", file.string(),
                 " with ", key, ": ", first_line(end.text),
                 "; --sign takes a private key such as ~/.ssh/id_ed25519, or the public one of a "
                 "key that an agent has");
}

std::string check_signature(const fs::path& file, const std::string& signers,
                            const std::string& identity) {
  const std::string signature = file.string() + ".sig";
  std::error_code ignored;
  PODIUM_REQUIRE(fs::exists(signature, ignored), ExitCode::kData, signature,
                 ": it is missing, so the receipt is not signed; its owner makes it by `podium "
                 "seal RUN --sign KEY`");
  std::string who = identity;
  if (who.empty()) {
    const ProgramEnd found =
        run_program({"ssh-keygen", "-Y", "find-principals", "-f", signers, "-s", signature},
                    {.keep_text = true}, kRemedy);
    PODIUM_REQUIRE(found.code == 0, ExitCode::kData, file.string(), ": signed by none of ", signers,
                   ": ", first_line(found.text));
    who = first_line(found.text);
  }
  const ProgramEnd end = run_program(
      {"ssh-keygen", "-Y", "verify", "-f", signers, "-I", who, "-n", kNamespace, "-s", signature},
      {.input = file.string(), .keep_text = true}, kRemedy);
  PODIUM_REQUIRE(end.code == 0, ExitCode::kData, file.string(), ": the signature is not one of ",
                 who, " for this receipt: ", first_line(end.text));
  return first_line(end.text);
}

}  // namespace podium
