#include "backend/pjrt/key_value_callbacks.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"

namespace podium::pjrt {
namespace {

template <typename Args>
PJRT_Error* failed(Args* args, PJRT_Error_Code code, const std::string& what) {
  return (*args->callback_error)(code, what.data(), what.size());
}

template <typename Args>
std::string key_of(Args* args) {
  return {args->key, args->key_size};
}

template <typename Args>
void give(Args* args, const std::string& value) {
  args->value = new char[value.size() + 1];  // NOLINT: the plugin calls the deleter
  std::memcpy(args->value, value.data(), value.size());
  args->value_size = value.size();
  args->value_deleter_callback = [](char* given) { delete[] given; };  // NOLINT
}

constexpr const char* kClosed = "keys are shared while the client is created, and no longer";

}  // namespace

// `work` has the key-values; what it throws becomes an error of the plugin.
template <typename Args, typename Work>
PJRT_Error* KeyValueAccess::answered(Args* args, const Work& work) {
  auto& access = *static_cast<KeyValueAccess*>(args->user_arg);
  KeyValues* const key_values = access.use();
  if (key_values == nullptr) return failed(args, PJRT_Error_Code_UNAVAILABLE, kClosed);
  PJRT_Error* error = nullptr;
  try {
    error = work(*key_values);
  } catch (const std::exception& thrown) {
    error = failed(args, PJRT_Error_Code_ABORTED, thrown.what());
  }
  access.end_use();
  return error;
}

KeyValueAccess::KeyValueAccess(KeyValues& key_values) : key_values_(&key_values) {
  key_values.open();
}

KeyValueAccess::~KeyValueAccess() {
  try {
    close("it opened no device");
  } catch (const std::exception&) {
    // A rank is lost, and the run with it.
  }
}

void KeyValueAccess::close(const std::string& failure) {
  std::unique_lock lock(mutex_);
  KeyValues* const closed = std::exchange(key_values_, nullptr);
  unused_.wait(lock, [&] { return users_ == 0; });
  lock.unlock();
  if (closed != nullptr) closed->close(failure);
}

void KeyValueAccess::fill_in(PJRT_Client_Create_Args& args) {
  args.kv_get_callback = get;
  args.kv_put_callback = put;
  args.kv_try_get_callback = try_get;
  args.kv_get_user_arg = args.kv_put_user_arg = args.kv_try_get_user_arg = this;
}

KeyValues* KeyValueAccess::use() {
  const std::scoped_lock lock(mutex_);
  if (key_values_ != nullptr) ++users_;
  return key_values_;
}

void KeyValueAccess::end_use() {
  const std::scoped_lock lock(mutex_);
  --users_;
  unused_.notify_all();
}

PJRT_Error* KeyValueAccess::get(PJRT_KeyValueGetCallback_Args* args) {
  return answered(args, [&](KeyValues& key_values) -> PJRT_Error* {
    const auto value = key_values.get(key_of(args), std::chrono::milliseconds(args->timeout_in_ms));
    if (!value)
      return failed(args, PJRT_Error_Code_DEADLINE_EXCEEDED,
                    cat("no process has put the key \"", key_of(args), "\" within ",
                        args->timeout_in_ms, " ms"));
    give(args, *value);
    return nullptr;
  });
}

PJRT_Error* KeyValueAccess::try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  return answered(args, [&](KeyValues& key_values) -> PJRT_Error* {
    const auto value = key_values.find(key_of(args));
    if (!value)
      return failed(args, PJRT_Error_Code_NOT_FOUND,
                    cat("no process has put the key \"", key_of(args), "\" yet"));
    give(args, *value);
    return nullptr;
  });
}

PJRT_Error* KeyValueAccess::put(PJRT_KeyValuePutCallback_Args* args) {
  return answered(args, [&](KeyValues& key_values) -> PJRT_Error* {
    key_values.put(key_of(args), {args->value, args->value_size});
    return nullptr;
  });
}

}  // namespace podium::pjrt
