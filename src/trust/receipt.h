// Receipts: what a run's folder holds, in a small file that its owner can publish or sign when the
// run has ended. A byte that changes afterwards is found (`podium seal`, `podium verify RECEIPT`).
//
//   {"format": "podium-receipt", "version": 1, "podium": "0.1.0", "commit": ..., "date": ...,
//    "recipe": NAME, "numerical_contract": N, "kind": ..., "training_data": ...,
//    "evaluation_data": ..., "steps": N, "last_hash": ..., "hashes": N, "root": ...,
//    "files": [{"path": "recipe.toml", "bytes": N, "sha256": ...}, ...]}
//
// The root is that of a Merkle tree of SHA-256, as in RFC 6962: a leaf is SHA-256(0x00, bytes), a
// node SHA-256(0x01, left, right), and the left part of n leaves is the largest power of two below
// n. The leaves are the lines of hashes.jsonl, without line ends, then "PATH BYTES SHA256" of each
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/stop.h"

namespace podium {

struct SealedFile {
  std::string path;  // within the run's folder, with /
  std::uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const SealedFile&) const = default;
};

struct Receipt {
  std::string podium, commit, date;
  std::string recipe, kind, training_data, evaluation_data;
  std::int64_t contract = 0;  // number of the numerical contract
  std::int64_t steps = 0;     // of the last checkpoint, or of the last hash
  std::string last_hash;      // of hashes.jsonl; empty: it has none
  std::int64_t hashes = 0;    // its lines
  std::string root;
  std::vector<SealedFile> files;  // by path
};

// The name of the receipt in a run's folder.
inline constexpr const char* kReceiptFile = "receipt.json";

// Of the folder as it is: recipe, environment, hashes, metrics, checkpoints, the tokenizer. Not of
// what others can be made from (TensorBoard's events, pages). Throws UserError(kData) if it is not
// that of a run, a file cannot be read, or another process is training it. Throws Stopped if `stop`
// requests it.
Receipt seal_run(const std::filesystem::path& run, StopToken stop = {});

std::string receipt_text(const Receipt& receipt);
// Throws UserError(kData) if it is not a text that receipt_text() wrote. `source` names it in
// errors.
Receipt parse_receipt(std::string_view text, const std::string& source);

// What is not as the receipt has it, a line for each; empty: all is.
std::vector<std::string> check_receipt(const Receipt& receipt, const std::filesystem::path& run,
                                       StopToken stop = {});

// The root of a Merkle tree, in hexadecimal digits; of no leaves: SHA-256 of nothing.
std::string merkle_root(const std::vector<std::string>& leaves);

// Signatures by OpenSSH's `ssh-keygen -Y`, in FILE.sig, for the namespace "podium-receipt".
// `key`: a private key, or a public one whose private key an agent has. Throws UserError if
// ssh-keygen is not there or refuses.
void sign_file(const std::filesystem::path& file, const std::string& key);
// Returns ssh-keygen's sentence about who signed it. `signers`: a file of allowed signers (ssh-
// keygen(1)); `identity`: one of them; empty: any whose key it is. Throws UserError(kData) if it is
// not signed, or not by them.
std::string check_signature(const std::filesystem::path& file, const std::string& signers,
                            const std::string& identity);

}  // namespace podium
