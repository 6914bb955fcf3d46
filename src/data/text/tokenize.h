// Shards of tokens from texts (`podium data tokenize`), on all cores. What an earlier call has made
// stays, so that one that was stopped goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/stop.h"

namespace podium {

struct TokenizeOptions {
  std::string tokenizer;  // bytes, or a path (data/text/tokenizer.h)
  std::string out;        // the folder of the shards
  double held_out =
      0.01;  // the share of the text, at its end, for shards with `val` in their names
  std::int64_t shard_bytes = std::int64_t{64} << 20;  // of text for a shard, about
  // Where a text has this, a document ends, and the tokenizer's separator stands instead of it:
  // "<|endoftext|>". Empty: a file is a document; of a .jsonl, the "text" of each line.
  std::string separator;
  int threads = 1;
};

struct Tokenized {
  std::int64_t shards = 0, kept = 0;   // all, and those that were there
  std::int64_t tokens = 0, bytes = 0;  // of the shards that were made, and of their text
};

// Makes train_00000.npy ... and val_00000.npy ... of the files (or of all in a folder), in order,
// and the folder `tokenizer` beside them. Calls made(done, all) after each shard. The shards depend
// on the texts and the options, not on the threads or on a stop. Throws UserError: kData, which
// names the file and the place, if a text has no tokens or a folder of other texts or options is in
// the way; Stopped if `stop` requests it.
Tokenized tokenize(const std::vector<std::string>& files, const TokenizeOptions& options,
                   const std::function<void(std::int64_t, std::int64_t)>& made,
                   StopToken stop = {});

}  // namespace podium
