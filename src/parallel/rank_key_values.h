// The key-values of the ranks of a run (backend/key_values.h). Rank 0 keeps them and answers the
// others, each by a thread of its own and on a channel of its own, that of its number.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/key_values.h"
#include "parallel/transport.h"

namespace podium {

class RankKeyValues : public KeyValues {
 public:
  // At most Transport::kChannels - 1 ranks. Channels are in use from open() to close().
  explicit RankKeyValues(Transport& ranks) : ranks_(ranks) {}
  ~RankKeyValues() override;

  int process() const override { return ranks_.rank(); }
  int processes() const override { return ranks_.ranks(); }
  void open() override;
  void put(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  void close(const std::string& failure) override;

 private:
  enum class Kind : std::uint32_t { kPut, kFind, kFound, kNothing, kFailed, kEnd };
  // What travels before the key and the value.
  struct Head {
    Kind kind = Kind::kEnd;
    std::uint32_t key_bytes = 0;
    std::uint64_t value_bytes = 0;
  };
  struct Letter {
    Kind kind = Kind::kEnd;
    std::string key, value;
  };

  void serve(int rank);
  Letter answer(const Letter& letter);
  Letter ask(const Letter& letter);
  // On the channel with a rank.
  void send(int rank, const Letter& letter);
  Letter receive(int rank);
  void move_bytes(int rank, void* memory, std::int64_t bytes, bool is_in);

  Transport& ranks_;
  bool is_open_ = false;
  std::mutex asking_;  // one at a time
  std::mutex mutex_;   // of the following, of rank 0
  std::map<std::string, std::string> values_;
  std::string failure_;
  std::vector<std::thread> servers_;
};

}  // namespace podium
