// An imitation of NCCL, for tests: ranks are processes or threads of one host, and a message is a
// file in a folder that the key names. Sends end at once; what is received comes when somebody asks
// how things stand. A communicator takes calls when all ranks have joined, and after a group when
// somebody has asked: as NCCL's do, it fails in calls before that.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "backend/cuda/nccl.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace podium::cuda_emulated::nccl {
namespace {

namespace fs = std::filesystem;

constexpr int kSystemError = 2, kInvalidUsage = 5, kRemoteError = 6;  // ncclResult_t

std::atomic<std::int64_t> g_calls{0}, g_fails_from{-1};
std::atomic<bool> g_is_missing{false}, g_is_held_back{false};

struct Receipt {
  fs::path file;
  void* to;
  std::int64_t bytes;
  Stream stream;
};
struct Communicator {
  fs::path folder;
  int rank = 0, ranks = 0;
  bool has_joined = false, in_group = false;
  std::map<int, std::int64_t> sent, awaited;  // messages, by rank
  std::deque<Receipt> receipts;
};
// Of this thread's group.
thread_local Communicator* t_group = nullptr;
Communicator& of(Comm comm) { return *static_cast<Communicator*>(comm); }

// Whether this call fails.
bool fails() {
  const std::int64_t number = g_calls++, first = g_fails_from;
  return first >= 0 && number >= first;
}

fs::path file_of(const Communicator& c, int from, int to, std::int64_t number) {
  return c.folder / cat(from, "-", to, "-", number);
}

// Another process sees a file with all of its bytes, or none. False where the folder is gone.
bool put(const fs::path& file, const std::vector<char>& bytes) {
  const fs::path unfinished = file.string() + ".part";
  std::ofstream(unfinished, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  std::error_code error;
  fs::rename(unfinished, file, error);
  return !error;
}

fs::path joined_file(const Communicator& c, int rank) { return c.folder / cat("joined-", rank); }
// Whether it takes calls.
bool is_idle(const Communicator& c) { return c.has_joined && !c.in_group; }

int get_version(int* version) {
  *version = 22809;
  return kSuccess;
}

int get_unique_id(UniqueId* id) {
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::string name = (fs::temp_directory_path() / "podium-nccl-XXXXXX").string();
  if (name.size() >= sizeof id->bytes || mkdtemp(name.data()) == nullptr) return kSystemError;
  std::memcpy(id->bytes, name.data(), name.size());
  return kSuccess;
}

int comm_init_rank_config(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  if (fails() || rank < 0 || rank >= ranks) return kSystemError;
  if (config->magic != Config().magic || config->blocking != 0) return kInvalidUsage;
  *comm = new Communicator{
      .folder = id.bytes, .rank = rank, .ranks = ranks, .sent = {}, .awaited = {}, .receipts = {}};
  return put(joined_file(of(*comm), rank), {}) ? kInProgress : kSystemError;
}

int comm_destroy(Comm comm) {
  const fs::path folder = of(comm).folder, joined = joined_file(of(comm), of(comm).rank);
  delete static_cast<Communicator*>(comm);
  std::error_code error;
  fs::remove(joined, error);
  fs::remove(folder, error);  // by the last one, when it is empty
  return kSuccess;
}

int comm_abort(Comm comm) {
  std::error_code error;
  fs::remove_all(of(comm).folder, error);
  delete static_cast<Communicator*>(comm);
  return kSuccess;
}

// Not counted, since how often it is called depends on time.
int comm_get_async_error(Comm comm, int* error) {
  if (g_fails_from >= 0 && g_calls > g_fails_from) {
    *error = kRemoteError;
    return kSuccess;
  }
  Communicator& c = of(comm);
  for (int rank = 0; !c.has_joined; ++rank) {
    if (rank == c.ranks && !g_is_held_back) {
      c.has_joined = true;
    } else if (rank == c.ranks || !fs::exists(joined_file(c, rank))) {
      *error = kInProgress;
      return kSuccess;
    }
  }
  // The first answer after a group is that it goes on.
  if (std::exchange(c.in_group, false)) {
    *error = kInProgress;
    return kSuccess;
  }
  std::deque<Receipt>& receipts = c.receipts;
  for (; !receipts.empty(); receipts.pop_front()) {
    const Receipt& receipt = receipts.front();
    std::ifstream file(receipt.file, std::ios::binary);
    if (!file) break;
    std::vector<char> bytes(static_cast<std::size_t>(receipt.bytes) + 1);
    file.read(bytes.data(), std::ssize(bytes));
    if (file.gcount() != receipt.bytes) {
      *error = kInvalidUsage;
      return kSuccess;
    }
    // It has come, even where streams are late.
    runtime::upload(receipt.stream, receipt.to, bytes.data(), receipt.bytes);
    runtime::synchronise(receipt.stream);
    fs::remove(receipt.file);
  }
  *error = receipts.empty() ? kSuccess : kInProgress;
  return kSuccess;
}

const char* get_error_string(int result) {
  switch (result) {
    case kSystemError: return "unhandled system error";
    case kInvalidUsage: return "invalid usage";
    case kRemoteError: return "remote process exited or there was a network error";
    default: return "unknown result code";
  }
}

const char* get_last_error(Comm /*comm*/) { return "emulated"; }

int send(const void* from, std::size_t count, int /*type*/, int peer, Comm comm,
         NativeStream stream) {
  if (fails()) return kSystemError;
  Communicator& c = of(comm);
  if (!is_idle(c)) return kInvalidUsage;
  t_group = &c;
  std::vector<char> bytes(count);
  runtime::download(stream, bytes.data(), from, static_cast<std::int64_t>(count));
  return put(file_of(c, c.rank, peer, c.sent[peer]++), bytes) ? kSuccess : kSystemError;
}

int recv(void* to, std::size_t count, int /*type*/, int peer, Comm comm, NativeStream stream) {
  if (fails()) return kSystemError;
  Communicator& c = of(comm);
  if (!is_idle(c)) return kInvalidUsage;
  t_group = &c;
  c.receipts.push_back(
      {file_of(c, peer, c.rank, c.awaited[peer]++), to, static_cast<std::int64_t>(count), stream});
  return kSuccess;
}

int group_start() { return fails() ? kSystemError : kSuccess; }
int group_end() {
  if (t_group == nullptr) return kSuccess;
  std::exchange(t_group, nullptr)->in_group = true;
  return kInProgress;
}

}  // namespace

const Library& library() {
  static const Library imitation{.functions = {.get_version = get_version,
                                               .get_unique_id = get_unique_id,
                                               .comm_init_rank_config = comm_init_rank_config,
                                               .comm_destroy = comm_destroy,
                                               .comm_abort = comm_abort,
                                               .comm_get_async_error = comm_get_async_error,
                                               .get_error_string = get_error_string,
                                               .get_last_error = get_last_error,
                                               .send = send,
                                               .recv = recv,
                                               .group_start = group_start,
                                               .group_end = group_end},
                                 .missing = ""};
  static const Library none{.functions = {}, .missing = "libnccl.so.2 cannot be opened (emulated)"};
  return g_is_missing ? none : imitation;
}

}  // namespace podium::cuda_emulated::nccl

namespace podium {

void fail_nccl_from(std::optional<std::int64_t> call) {
  cuda_emulated::nccl::g_calls = 0;
  cuda_emulated::nccl::g_fails_from = call.value_or(-1);
}
std::int64_t nccl_calls() { return cuda_emulated::nccl::g_calls; }
void hold_nccl_back(bool held) { cuda_emulated::nccl::g_is_held_back = held; }
void set_nccl_missing(bool missing) { cuda_emulated::nccl::g_is_missing = missing; }

}  // namespace podium
