// The next token of a text, again and again: a network's logits after the last of the tokens so
// far. Keys and values of attention are kept, so that a token more costs the work of one row; where
// a network cannot do so, or its window is full, the window is computed anew. Both have the same
// bits. A network with recurrent layers alone keeps their state: it has read all tokens, however
// many.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "train/predict/predictor.h"

namespace podium {

class Decoder {
 public:
  // The predictor must outlive it. Throws UserError(kUsage) if the network does not predict the
  // next token of a text. `keeps`: false computes every window anew.
  explicit Decoder(Predictor& predictor, bool keeps = true);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  std::int64_t context() const;  // tokens that the network sees at once
  bool keeps() const;            // whether it keeps keys and values, or states

  // [vocabulary]: the logits of the token after `tokens`, of which the last context() are read, or
  // all where states are kept; there is at least one. Valid until the next call.
  std::span<const float> logits(std::span<const std::int32_t> tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podium
