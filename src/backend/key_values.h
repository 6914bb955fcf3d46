// Texts by key that the processes of a run share while each opens its device: devices of several
// processes tell each other of themselves in this way. Implemented over the run's transport
// (parallel/rank_key_values.h).
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace podium {

// Those of one process.
class KeyValues {
 public:
  KeyValues() = default;
  virtual ~KeyValues() = default;
  KeyValues(const KeyValues&) = delete;
  KeyValues& operator=(const KeyValues&) = delete;

  // The number of this process, from 0.
  virtual int process() const = 0;
  // How many there are.
  virtual int processes() const = 0;

  // All processes call open(), then close(). What comes between may be called by any threads.
  virtual void open() = 0;
  // Replaces what another process has put there.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Nothing if nobody has put it yet. Throws UserError if another process has failed.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  // Returns when all processes have called it. `failure` is why this one cannot go on, which
  // find() tells the others; empty: it can.
  virtual void close(const std::string& failure) = 0;

  // Waits for it; nothing if that takes longer.
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds longest);
};

}  // namespace podium
