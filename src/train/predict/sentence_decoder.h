// The next tokens of many sentences, each of another sentence (train/predict/translate.h). What the
// network reads of the other sentence is computed once, keys and values of attention are kept, so
// that a token costs the work of one row. The logits are those of the whole network, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/predict/predictor.h"

namespace podium {

class SentenceDecoder {
 public:
  // Of up to `rows` sentences at once, by a worker of the predictor, which must outlive it. Null
  // where a network or a device cannot keep what it has read.
  static std::unique_ptr<SentenceDecoder> make(Predictor& predictor, std::int64_t rows, int worker);
  ~SentenceDecoder();

  std::int64_t rows() const;
  // Begins: row i of the sources is read for sentence i; there are at most rows().
  void begin(std::span<const std::vector<std::int32_t>> sources);
  // [rows, vocabulary], of what follows these tokens, one of each sentence; sentence i goes on from
  // what sentence origins[i] was before. Valid until the next call.
  const float* logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> origins);

 private:
  struct State;
  explicit SentenceDecoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace podium
