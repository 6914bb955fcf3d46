// Libraries that are no PJRT plugins, or bad ones; KIND says which. Those of kind 6 to 12 hand all
// calls on to the plugin in FAKE_PJRT_REAL: 6 and 7 up to the execution whose number is in
// FAKE_PJRT_FAILS; 8 and 9 append a line to the file FAKE_PJRT_LOG for each program that they
// compile or load, and 9 hands no program out. 10 has a client of several processes, whose options
// are `process` and `processes`: each tells all others a word by the key-values, and refuses what
// it does not hear; the process in FAKE_PJRT_FAILS refuses before. 11 crashes where a client is
// created. 12 has too little memory for any program.
#include <dlfcn.h>
#include <pjrt_c_api.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr int kNoApi = 1, kOtherVersion = 2, kTooOld = 3, kNoDevices = 4, kBusy = 5, kFails = 6,
              kCrashes = 7, kLogs = 8, kKeepsPrograms = 9, kProcesses = 10, kCrashesAtStart = 11,
              kFull = 12;

// The one error that these plugins make.
char own_error = 0;
PJRT_Error* const kOwnError = reinterpret_cast<PJRT_Error*>(&own_error);
const char* own_words = "";

PJRT_Api api;
const PJRT_Api* real = nullptr;
std::atomic<int> executions{0};

void message(PJRT_Error_Message_Args* args) {
  if (args->error != kOwnError) return real->PJRT_Error_Message(args);
  args->message = own_words;
  args->message_size = std::strlen(own_words);
}
void destroy(PJRT_Error_Destroy_Args* args) {
  if (args->error != kOwnError) real->PJRT_Error_Destroy(args);
}
PJRT_Error* code(PJRT_Error_GetCode_Args* args) {
  if (args->error != kOwnError) return real->PJRT_Error_GetCode(args);
  args->code = KIND == kFull ? PJRT_Error_Code_RESOURCE_EXHAUSTED : PJRT_Error_Code_UNAVAILABLE;
  return nullptr;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }
PJRT_Error* create(PJRT_Client_Create_Args* args) {
  if (KIND == kBusy) {
    own_words = "the device is in use by process 7";
    return kOwnError;
  }
  args->client = reinterpret_cast<PJRT_Client*>(&api);
  return nullptr;
}
// --- a client of several processes

std::string kept_words;  // of own_words

PJRT_Error* refused(const std::string& words) {
  kept_words = words;
  own_words = kept_words.c_str();
  return kOwnError;
}

PJRT_Error_Code called_back = PJRT_Error_Code_UNKNOWN;
PJRT_Error* error_of_callback(PJRT_Error_Code code, const char* words, std::size_t size) {
  called_back = code;
  return refused({words, size});
}

PJRT_Error* create_of_processes(PJRT_Client_Create_Args* args) {
  long process = -1, processes = -1;
  for (std::size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    (name == "process" ? process : processes) = option.int64_value;
  }
  const char* const failing = std::getenv("FAKE_PJRT_FAILS");
  if (failing != nullptr && process == std::atol(failing))
    return refused("the chip of this process is broken");
  PJRT_CallbackError make_error = error_of_callback;
  const auto hear = [&](const std::string& key, int milliseconds, std::string& value) {
    PJRT_KeyValueGetCallback_Args get{};
    get.struct_size = sizeof get;
    get.key = key.data();
    get.key_size = key.size();
    get.timeout_in_ms = milliseconds;
    get.callback_error = &make_error;
    get.user_arg = args->kv_get_user_arg;
    PJRT_Error* const error = args->kv_get_callback(&get);
    if (error != nullptr) return error;
    value.assign(get.value, get.value_size);
    get.value_deleter_callback(get.value);
    return error;
  };
  const auto word_of = [](long of) { return "process " + std::to_string(of) + " is here"; };
  const std::string key = "fake/" + std::to_string(process), mine = word_of(process);
  PJRT_KeyValuePutCallback_Args put{};
  put.struct_size = sizeof put;
  put.key = key.data();
  put.key_size = key.size();
  put.value = mine.data();
  put.value_size = mine.size();
  put.callback_error = &make_error;
  put.user_arg = args->kv_put_user_arg;
  if (PJRT_Error* const error = args->kv_put_callback(&put)) return error;
  std::string heard;
  for (long other = 0; other < processes; ++other) {
    if (PJRT_Error* const error = hear("fake/" + std::to_string(other), 20'000, heard))
      return error;
    if (heard != word_of(other)) return refused("heard \"" + heard + "\"");
  }
  PJRT_Error* error = hear("fake/nobody", 50, heard);
  if (error == nullptr || called_back != PJRT_Error_Code_DEADLINE_EXCEEDED)
    return refused("a key of nobody was heard");
  PJRT_KeyValueTryGetCallback_Args look{};
  look.struct_size = sizeof look;
  look.key = "fake/nobody";
  look.key_size = std::strlen(look.key);
  look.callback_error = &make_error;
  look.user_arg = args->kv_try_get_user_arg;
  error = args->kv_try_get_callback(&look);
  if (error == nullptr || called_back != PJRT_Error_Code_NOT_FOUND)
    return refused("a key of nobody was found");
  std::ofstream(std::getenv("FAKE_PJRT_LOG"), std::ios::app)
      << "process " << process << " of " << processes << "\n";
  args->num_options = 0;  // the real one knows none of them
  return real->PJRT_Client_Create(args);
}

PJRT_Error* crash(PJRT_Client_Create_Args*) { std::abort(); }

PJRT_Error* destroy_client(PJRT_Client_Destroy_Args*) { return nullptr; }
PJRT_Error* no_devices(PJRT_Client_AddressableDevices_Args* args) {
  args->num_addressable_devices = 0;
  return nullptr;
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  if (++executions < std::atoi(std::getenv("FAKE_PJRT_FAILS")))
    return real->PJRT_LoadedExecutable_Execute(args);
  if (KIND == kCrashes) std::abort();
  own_words = "the interconnect is down";
  return kOwnError;
}

void note(const char* what) {
  std::ofstream(std::getenv("FAKE_PJRT_LOG"), std::ios::app) << what << "\n";
}
PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  if (KIND == kFull) {
    own_words = "Used 18.2G of 15.7G";
    return kOwnError;
  }
  note("compile");
  return real->PJRT_Client_Compile(args);
}
PJRT_Error* load(PJRT_Executable_DeserializeAndLoad_Args* args) {
  note("load");
  return real->PJRT_Executable_DeserializeAndLoad(args);
}
PJRT_Error* keep(PJRT_Executable_Serialize_Args*) {
  own_words = "programs stay here";
  return kOwnError;
}

// Every function that Podium calls is there, although most are never called.
void fill_in() {
  std::memset(&api, 0, sizeof api);
  auto* const functions = reinterpret_cast<void**>(&api.PJRT_Error_Destroy);
  const std::size_t count = (sizeof api - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(void*);
  for (std::size_t i = 0; i < count; ++i) functions[i] = reinterpret_cast<void*>(&std::abort);
  api.struct_size = sizeof api;
  api.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
}

}  // namespace

#if KIND != 1
extern "C" __attribute__((visibility("default"))) const PJRT_Api*
GetPjrtApi() {  // NOLINT: the name that PJRT looks for
  if (KIND >= kFails) {
    void* const library = dlopen(std::getenv("FAKE_PJRT_REAL"), RTLD_NOW | RTLD_LOCAL);
    using GetApi = const PJRT_Api* (*)();
    real = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"))();
    // Of a newer plugin, what this header knows.
    std::memcpy(&api, real, std::min(sizeof api, real->struct_size));
    api.struct_size = std::min(sizeof api, real->struct_size);
    if (KIND == kFails || KIND == kCrashes) {
      api.PJRT_LoadedExecutable_Execute = execute;
    } else if (KIND == kProcesses || KIND == kCrashesAtStart) {
      api.PJRT_Client_Create = KIND == kProcesses ? create_of_processes : crash;
    } else {
      api.PJRT_Client_Compile = compile;
      api.PJRT_Executable_DeserializeAndLoad = load;
      if (KIND == kKeepsPrograms) api.PJRT_Executable_Serialize = keep;
    }
  } else {
    fill_in();
    api.PJRT_Plugin_Initialize = initialize;
    api.PJRT_Client_Create = create;
    api.PJRT_Client_Destroy = destroy_client;
    api.PJRT_Client_AddressableDevices = no_devices;
  }
  api.PJRT_Error_Message = message;
  api.PJRT_Error_Destroy = destroy;
  api.PJRT_Error_GetCode = code;
  if (KIND == kOtherVersion) api.pjrt_api_version.major_version = PJRT_API_MAJOR + 1;
  if (KIND == kTooOld) api.struct_size = offsetof(PJRT_Api, PJRT_LoadedExecutable_Execute);
  return &api;
}
#endif
