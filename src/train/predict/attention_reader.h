// Where a network that translates looks while it writes: the shares of its last attention over the
// other sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "data/text/tokenizer.h"
#include "train/predict/predictor.h"

namespace podium {

class AttentionReader {
 public:
  // The predictor must outlive it.
  explicit AttentionReader(Predictor& predictor);
  ~AttentionReader();

  // Of a sentence and what was written of it, each with its end; nothing where the network has no
  // such attention.
  std::optional<AttentionMap> read(std::span<const std::int32_t> source,
                                   std::span<const std::int32_t> written,
                                   const Tokenizer& tokenizer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podium
