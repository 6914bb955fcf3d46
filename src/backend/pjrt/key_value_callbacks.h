// The callbacks by which a client of several processes shares texts while it is created.
#pragma once

#include <pjrt_c_api.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "backend/key_values.h"

namespace podium::pjrt {

// Must outlive the client, which may call at any time. Once closed, its callbacks return errors.
class KeyValueAccess {
 public:
  // Opens the key-values, which must live until close().
  explicit KeyValueAccess(KeyValues& key_values);
  ~KeyValueAccess();
  KeyValueAccess(const KeyValueAccess&) = delete;
  KeyValueAccess& operator=(const KeyValueAccess&) = delete;

  // `failure`: as KeyValues::close() has it.
  void close(const std::string& failure);
  void fill_in(PJRT_Client_Create_Args& args);

 private:
  static PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args);
  static PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args);
  static PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args);
  template <typename Args, typename Work>
  static PJRT_Error* answered(Args* args, const Work& work);
  // Null: closed. Callbacks of several threads may use it at once; close() waits for them.
  KeyValues* use();
  void end_use();

  std::mutex mutex_;
  std::condition_variable unused_;
  KeyValues* key_values_;
  int users_ = 0;
};

}  // namespace podium::pjrt
