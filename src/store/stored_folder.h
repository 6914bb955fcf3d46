// A folder of this machine that is published to a store as a whole, such as that of a run. What the
// store holds is always one state of it, complete: files have names of their own and never change,
// and one object, ADDRESS/folder.json, which is replaced on the condition that nobody else has done
// so, says which of them are the folder now.
//
//   ADDRESS/folder.json                           names, sizes, SHA-256 and marks of the files; who
//                                                 wrote it
//   ADDRESS/files/NAME.0123456789abcdef.89abcdef  a file; its name ends with the begin of its
//                                                 SHA-256 and its writer's mark
//
// Whoever opens it for writing takes it over: an earlier writer is refused from then on, and learns
// it when it publishes next. A kill at any moment leaves the state before, and perhaps objects that
// no state names, which the next writer removes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "files/file_state.h"
#include "store/object_store.h"

namespace podium {

// Of the files of such a folder, by their paths in it.
struct StoredFile {
  std::int64_t size = 0;
  std::string sha256;
  std::string mark;  // of the writer that sent it; empty in a state of "podium folder 1"

  bool same_contents(const StoredFile& other) const {
    return size == other.size && sha256 == other.sha256;
  }
  bool operator==(const StoredFile&) const = default;
};
struct FolderState {
  std::string writer;
  std::map<std::string, StoredFile> files;
};
// Throws UserError(kData), which begins with `what`, if the text is none.
FolderState parse_folder_state(const std::string& json, const std::string& what);
std::string to_json(const FolderState& state);

class StoredFolder {
 public:
  // Takes over the folder at `address`, s3://BUCKET/KEY, and makes folder() what it holds, unless
  // this machine was the last to publish there and may have gone on since. Throws UserError(kData)
  // if the store refuses, or holds other objects below the address.
  explicit StoredFolder(const std::string& address, const HttpPatience& patience = {});
  // Stops; call finish() before, if failures matter.
  ~StoredFolder();
  StoredFolder(const StoredFolder&) = delete;
  StoredFolder& operator=(const StoredFolder&) = delete;

  // In the user's cache folder.
  const std::filesystem::path& folder() const { return folder_; }

  // Publishes, in a thread of its own, what the folder holds when that begins. Files of it may grow
  // or be replaced meanwhile, but not change within. Throws UserError(kData) if somebody else has
  // taken the folder over. Other failures are logged, and it is tried again with the next call.
  void publish_soon();
  // Publishes what the folder holds now and waits for it. Throws UserError(kData) if that fails;
  // the folder of this machine then has all, and the next StoredFolder goes on with it.
  void finish();

 private:
  void work();
  void publish();
  void take_over();
  void remove_unnamed();
  void open();

  const ObjectAddress address_;
  const std::unique_ptr<ObjectStore> store_;
  std::filesystem::path folder_;
  std::filesystem::path record_;  // names the writers whose state folder_ is, or went on from
  FolderState state_;             // as it is published
  std::string tag_;               // of folder.json
  std::string mark_;              // of the files that this writer sends
  std::set<std::string> keys_;    // objects of files that may be there
  std::string last_writer_;       // before this one
  bool own_ = false;              // it was this machine, too
  struct Seen {
    FileState state;
    std::string sha256;
  };
  std::map<std::string, Seen> seen_;  // files that were hashed

  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, ends_ = false;
  std::exception_ptr lost_;  // somebody else has taken it over
  std::thread thread_;
};

// A copy of the folder at `address` for reading, as it is now; nothing if there is none.
std::optional<std::filesystem::path> copy_of_stored_folder(ObjectStore& store,
                                                           const ObjectAddress& address);

}  // namespace podium
