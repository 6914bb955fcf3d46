// From a network that predicts a token for each row of a window to one that predicts a single token
// of each sequence and keeps the keys and values of those before it, or the state of recurrent
// layers. What depends on other inputs alone, as the encoder of a translation does, is computed
// once. Every operation between is one of rows, so a token that is computed by itself has the bits
// of the whole window (docs/numerics.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace podium {

struct Decoding {
  // Of `evaluation`: "tokens" i32 [B, T] -> "logits" [B T, V]; and as outputs, under the names of
  // `caches`, the keys and values [B T, G D] of each attention. Not of a network with states, which
  // has no window: it reads one token after the other.
  Graph window;
  // The other inputs -> what the network reads of them, named as in `memories`. Empty if there are
  // none.
  Graph memory;
  // "tokens" i32 [B, 1], kPositions and kOrigins i32 [B], the caches, the memories and such other
  // inputs as are read themselves -> "logits" [B, V] and the caches with one row more, named
  // kNextCache before the name. A sequence goes on from the one that its origin names.
  Graph token;
  std::vector<std::string> caches, memories;
};
inline constexpr const char *kNextCache = "next/", *kPositions = "positions", *kOrigins = "origins";

// What a network leaves for its next window: the names of an input and of an output.
struct StateNames {
  std::string before, after;
};

// Nothing if the network has an operation that does not work on rows, or looks ahead. `tokens` and
// `logits` name the program's input and output. With `states`, these are the caches.
std::optional<Decoding> decoding_of(const Graph& evaluation, const std::string& tokens,
                                    const std::string& logits,
                                    const std::vector<StateNames>& states = {});

}  // namespace podium
