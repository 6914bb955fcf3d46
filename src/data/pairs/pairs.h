// Pairs of sentences, such as translations (docs/translation.md): two files, line by line, or two
// columns of a table.
//
// An example has the fields "source", i32 [context]; "source_length", i32: how many of these count;
// "tokens" and "next", i32 [context]: the target, first with the end token before it, and then with
// the end token behind it, as a text and what follows; "weights", i32 [context]: 1 where "next"
// counts. One tokenizer reads both languages. Each sentence ends in the end token, with which the
// rest is filled up: to the context, or in training to the least of `data.buckets` that holds both
// sentences of each pair of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/pairs/pair_options.h"
#include "data/sentences/sentence_reader.h"
#include "data/source/source.h"
#include "data/table/table_options.h"
#include "data/text/text_options.h"
#include "data/text/tokenizer.h"

namespace podium {

// The fields of pairs; `words` are Tokenizer::words().
std::vector<Field> pair_fields(std::int64_t context, std::int64_t vocabulary,
                               const std::vector<std::string>& words = {});

class PairSource : public Source {
 public:
  // `target`: none, the network begins with the end token alone and nothing counts. `buckets`: as
  // PairOptions has them.
  PairSource(std::string origin, std::vector<Field> fields, std::int32_t end, TokenRows source,
             TokenRows target, std::vector<std::int64_t> buckets = {});

  std::vector<Field> fields() const override { return fields_; }
  std::int64_t examples() const override { return std::ssize(source_.lengths); }
  const std::string& origin() const override { return origin_; }
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const override;
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;
  std::vector<std::int64_t> bucket_lengths() const override { return lengths_; }
  std::size_t bucket_of(std::int64_t index) const override;
  // The tokens of a pair's sentences, each with its end.
  std::vector<std::int32_t> source_tokens(std::int64_t index) const;
  std::vector<std::int32_t> target_tokens(std::int64_t index) const;

 private:
  std::vector<std::int32_t> tokens_of(const TokenRows& side, std::int64_t index) const;

  std::string origin_;
  std::vector<Field> fields_;
  std::int32_t end_;
  std::int64_t context_;
  TokenRows source_, target_;
  std::vector<std::int64_t> lengths_;  // of the buckets, the context the last
};

struct Pairs {
  std::shared_ptr<const PairSource> train, held_out;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> notes;  // of sentences that are cut
};

// The two parts. What is evaluated is the pair of files held_out_path and held_out_target_path (a
// table alone, if those to train on are one), or a share of the pairs, drawn as rows of a table.
// Throws UserError(kData), which names file and line, if the files of a pair have other numbers of
// lines, a sentence is empty or, unless it is cut, longer than the context.
Pairs open_pairs(const std::string& path, const PairOptions& pairs, const TextOptions& text,
                 const TableOptions& table, double held_out, const std::string& data_dir);

}  // namespace podium
