#include "backend/pjrt/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>

#include "backend/pjrt/api.h"
#include "backend/pjrt/compile_options.pb.h"
#include "backend/pjrt/key_value_callbacks.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/shared_object.h"

namespace podium::pjrt {
namespace {

std::string message_of(const PJRT_Api* api, const PJRT_Error* error) {
  PODIUM_PJRT_ARGS(args, PJRT_Error_Message_Args);
  args.error = error;
  api->PJRT_Error_Message(&args);
  return {args.message, args.message_size};
}
PJRT_Error_Code code_of(const PJRT_Api* api, const PJRT_Error* error) {
  PODIUM_PJRT_ARGS(args, PJRT_Error_GetCode_Args);
  args.error = error;
  PJRT_Error* const failed = api->PJRT_Error_GetCode(&args);
  return failed == nullptr ? args.code : PJRT_Error_Code_UNKNOWN;
}

// The functions that Podium calls. A plugin of an older API ends before some, and may leave out
// others.
struct Entry {
  const char* name;
  std::size_t offset;
};
#define PODIUM_PJRT_ENTRY(name) \
  Entry { #name, offsetof(PJRT_Api, name) }
constexpr std::array kNeeded = {
    PODIUM_PJRT_ENTRY(PJRT_Error_Destroy),
    PODIUM_PJRT_ENTRY(PJRT_Error_Message),
    PODIUM_PJRT_ENTRY(PJRT_Error_GetCode),
    PODIUM_PJRT_ENTRY(PJRT_Plugin_Initialize),
    PODIUM_PJRT_ENTRY(PJRT_Event_Destroy),
    PODIUM_PJRT_ENTRY(PJRT_Event_Await),
    PODIUM_PJRT_ENTRY(PJRT_Client_Create),
    PODIUM_PJRT_ENTRY(PJRT_Client_Destroy),
    PODIUM_PJRT_ENTRY(PJRT_Client_PlatformName),
    PODIUM_PJRT_ENTRY(PJRT_Client_PlatformVersion),
    PODIUM_PJRT_ENTRY(PJRT_Client_AddressableDevices),
    PODIUM_PJRT_ENTRY(PJRT_Client_Compile),
    PODIUM_PJRT_ENTRY(PJRT_Client_BufferFromHostBuffer),
    PODIUM_PJRT_ENTRY(PJRT_Device_GetDescription),
    PODIUM_PJRT_ENTRY(PJRT_DeviceDescription_Id),
    PODIUM_PJRT_ENTRY(PJRT_DeviceDescription_Kind),
    PODIUM_PJRT_ENTRY(PJRT_LoadedExecutable_Destroy),
    PODIUM_PJRT_ENTRY(PJRT_LoadedExecutable_Execute),
    PODIUM_PJRT_ENTRY(PJRT_Buffer_Destroy),
    PODIUM_PJRT_ENTRY(PJRT_Buffer_CopyToDevice),
    PODIUM_PJRT_ENTRY(PJRT_Buffer_ToHostBuffer),
};

// Of a step that fails.
constexpr const char* kGoesOn =
    "; the same command resumes from the last checkpoint, which is intact";

constexpr const char* kRemedy =
    "name another plugin in PODIUM_PJRT_PLUGIN, or train with --backend cpu";

const PJRT_Api* open_library(const std::string& path) {
  PODIUM_REQUIRE(std::filesystem::is_regular_file(path), ExitCode::kUsage,
                 "PODIUM_PJRT_PLUGIN=", path, ": there is no such file; ", kRemedy);
  const auto [library, problem] = load_shared_object(path);
  PODIUM_REQUIRE(library != nullptr, ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path,
                 ": cannot be loaded on this machine: ", problem, "; ", kRemedy);
  using GetApi = const PJRT_Api* (*)();
  const auto get = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  PODIUM_REQUIRE(get != nullptr, ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path,
                 ": is a library but not a PJRT plugin, because it has no GetPjrtApi; ", kRemedy);
  const PJRT_Api* const api = get();
  PODIUM_REQUIRE(api != nullptr, ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path,
                 ": returns no API; ", kRemedy);
  return api;
}

void require_api(const std::string& path, const PJRT_Api* api) {
  const std::size_t shortest = offsetof(PJRT_Api, PJRT_Error_Destroy);
  PODIUM_REQUIRE(
      api->struct_size >= shortest && api->pjrt_api_version.major_version == PJRT_API_MAJOR,
      ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path, ": has version ",
      api->pjrt_api_version.major_version, ".", api->pjrt_api_version.minor_version,
      " of the PJRT API, but Podium has ", PJRT_API_MAJOR, ".", PJRT_API_MINOR,
      ", and the first numbers must be equal; ", kRemedy);
  for (const Entry& entry : kNeeded)
    PODIUM_REQUIRE(has(api, entry.offset), ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path,
                   ": version ", api->pjrt_api_version.major_version, ".",
                   api->pjrt_api_version.minor_version, " of the PJRT API lacks ", entry.name,
                   ", which Podium calls; ", kRemedy);
}

// A program that was compiled in less is not worth a file.
constexpr double kWorthKeeping = 0.05;

// While it lives, work goes on: other ranks hear of it, and people read a line when a second has
// gone by, then rarely.
class Patience {
 public:
  explicit Patience(const std::string& what)
      : thread_([this, what](const std::stop_token& stop) { wait(stop, what); }) {}

 private:
  void wait(const std::stop_token& stop, const std::string& what) {
    std::unique_lock lock(mutex_);
    for (int seconds = 1;; ++seconds) {
      const auto until = start_ + std::chrono::seconds(seconds);
      ended_.wait_until(lock, stop, until, [] { return false; });
      if (stop.stop_requested()) return;
      note_progress();
      if (seconds == 1 || seconds % 15 == 0)
        log(LogLevel::kInfo, seconds == 1
                                 ? cat("compiling ", what, " ...")
                                 : cat("compiling ", what, ", for ", seconds, " s so far"));
    }
  }

  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it uses all of the above
};

// One option of a client, with the text that it points into.
struct ClientOption {
  std::string name, text;
  PJRT_NamedValue value;
};

// Which process of how many this is, for an option whose value says `rank` or `ranks`.
std::string of_process(const std::string& text, const KeyValues* key_values) {
  if (text == "rank") return std::to_string(key_values == nullptr ? 0 : key_values->process());
  if (text == "ranks") return std::to_string(key_values == nullptr ? 1 : key_values->processes());
  return text;
}

ClientOption parse_option(const std::string& item, const KeyValues* key_values) {
  const std::size_t equals = item.find('=');
  PODIUM_REQUIRE(equals != std::string::npos && equals > 0, ExitCode::kUsage,
                 "PODIUM_PJRT_OPTIONS: \"", item,
                 "\" is not an option; write NAME=VALUE,NAME=VALUE, such as cpu_device_count=4");
  ClientOption option{item.substr(0, equals), of_process(item.substr(equals + 1), key_values), {}};
  const char *const begin = option.text.data(), *const end = begin + option.text.size();
  PJRT_NamedValue& value = option.value;
  std::memset(&value, 0, sizeof value);
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.value_size = 1;
  std::int64_t number = 0;
  if (const auto [last, error] = std::from_chars(begin, end, number);
      error == std::errc() && last == end) {
    value.type = PJRT_NamedValue_kInt64;
    value.int64_value = number;
  } else if (option.text == "true" || option.text == "false") {
    value.type = PJRT_NamedValue_kBool;
    value.bool_value = option.text == "true";
  } else {
    value.type = PJRT_NamedValue_kString;
    value.value_size = option.text.size();
  }
  return option;
}

std::vector<ClientOption> parse_options(const std::string& text, const KeyValues* key_values) {
  std::vector<ClientOption> options;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    options.push_back(parse_option(text.substr(at, end - at), key_values));
    at = end + 1;
  }
  return options;
}

}  // namespace

void destroy(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return;
  PODIUM_PJRT_ARGS(args, PJRT_Error_Destroy_Args);
  args.error = error;
  api->PJRT_Error_Destroy(&args);
}

bool has(const PJRT_Api* api, std::size_t offset) {
  if (offset + sizeof(void*) > api->struct_size) return false;
  void* function = nullptr;
  std::memcpy(static_cast<void*>(&function), reinterpret_cast<const std::byte*>(api) + offset,
              sizeof function);
  return function != nullptr;
}

void require_none(const PJRT_Api* api, const std::string& path, PJRT_Error* error,
                  const std::string& what) {
  if (error == nullptr) return;
  const std::string words = message_of(api, error);
  const PJRT_Error_Code code = code_of(api, error);
  destroy(api, error);
  throw UserError(
      cat("the PJRT plugin ", path, " ", what, ". Its message: ", words),
      code == PJRT_Error_Code_RESOURCE_EXHAUSTED ? ExitCode::kMemory : ExitCode::kUsage);
}

const PJRT_Api* open_plugin(const std::string& path) {
  const PJRT_Api* const api = open_library(path);
  require_api(path, api);
  return api;
}

namespace {

// What a platform must be told so that a program has the same bits each time. XLA's compiler for
// GPUs otherwise chooses algorithms by measuring them, and some that add in any order.
std::vector<const char*> flags_of(const std::string& platform) {
  if (platform == "cuda" || platform == "rocm") return {"xla_gpu_deterministic_ops"};
  return {};
}

}  // namespace

std::string compile_options(const CompileFor& target) {
  CompileOptions options;
  ExecutableBuildOptions& build = *options.mutable_executable_build_options();
  build.set_device_ordinal(-1);  // none in particular
  build.set_num_replicas(target.devices);
  build.set_num_partitions(1);
  if (!target.ids.empty()) {
    DeviceAssignment& assignment = *build.mutable_device_assignment();
    assignment.set_replica_count(target.devices);
    assignment.set_computation_count(1);
    ComputationDevice& only = *assignment.add_computation_devices();
    for (const std::int64_t id : target.ids) only.add_replica_device_ids(id);
  }
  options.set_compile_portable_executable(target.devices == 1 && !target.is_only_looked_at);
  for (const char* const flag : flags_of(target.platform))
    (*options.mutable_env_option_overrides())[flag].set_bool_field(true);
  // A TPU's compiler otherwise takes minutes.
  if (target.is_only_looked_at) build.set_optimization_level(9);
  return options.SerializeAsString();
}

Array::~Array() {
  PODIUM_PJRT_ARGS(args, PJRT_Buffer_Destroy_Args);
  args.buffer = buffer_;
  destroy(api_, api_->PJRT_Buffer_Destroy(&args));
}

Program::~Program() {
  PODIUM_PJRT_ARGS(args, PJRT_LoadedExecutable_Destroy_Args);
  args.executable = executable_;
  destroy(api_, api_->PJRT_LoadedExecutable_Destroy(&args));
}

ProgramMemory Program::memory() const {
  if (!PODIUM_PJRT_HAS(api_, PJRT_LoadedExecutable_GetExecutable) ||
      !PODIUM_PJRT_HAS(api_, PJRT_Executable_GetCompiledMemoryStats))
    return {};
  PODIUM_PJRT_ARGS(get, PJRT_LoadedExecutable_GetExecutable_Args);
  get.loaded_executable = executable_;
  if (PJRT_Error* const error = api_->PJRT_LoadedExecutable_GetExecutable(&get)) {
    destroy(api_, error);
    return {};
  }
  PODIUM_PJRT_ARGS(args, PJRT_Executable_GetCompiledMemoryStats_Args);
  args.executable = get.executable;
  ProgramMemory memory;
  if (PJRT_Error* const error = api_->PJRT_Executable_GetCompiledMemoryStats(&args)) {
    destroy(api_, error);
  } else {
    memory = {.arguments = args.argument_size_in_bytes,
              .results = args.output_size_in_bytes - args.alias_size_in_bytes,
              .temporary = args.temp_size_in_bytes};
  }
  PODIUM_PJRT_ARGS(end, PJRT_Executable_Destroy_Args);
  end.executable = get.executable;
  destroy(api_, api_->PJRT_Executable_Destroy(&end));
  return memory;
}

Plugin::Plugin(const std::string& path, const std::string& options, KeyValues* key_values)
    : path_(path) {
  // How XLA's CPU divides a product among its threads decides the order of its sums. It has as many
  // as the machine has cores or the client has devices, whichever is more, or as NPROC says: one
  // number for all, so that neither decides a result.
  setenv("NPROC", "8", 0);
  api_ = open_plugin(path);
  PODIUM_PJRT_ARGS(start, PJRT_Plugin_Initialize_Args);
  require(api_->PJRT_Plugin_Initialize(&start), "could not be initialised");
  create_client(options, key_values);
  if (PODIUM_PJRT_HAS(api_, PJRT_LoadedExecutable_GetExecutable) &&
      PODIUM_PJRT_HAS(api_, PJRT_Executable_Destroy) &&
      PODIUM_PJRT_HAS(api_, PJRT_Executable_Serialize) &&
      PODIUM_PJRT_HAS(api_, PJRT_Executable_DeserializeAndLoad))
    cache_ = ProgramCache::of_environment(maker(options));
}

void Plugin::create_client(const std::string& text, KeyValues* key_values) {
  std::vector<ClientOption> options = parse_options(text, key_values);
  std::vector<PJRT_NamedValue> values;
  for (ClientOption& option : options) {
    option.value.name = option.name.data();
    option.value.name_size = option.name.size();
    if (option.value.type == PJRT_NamedValue_kString)
      option.value.string_value = option.text.data();
    values.push_back(option.value);
  }
  PODIUM_PJRT_ARGS(create, PJRT_Client_Create_Args);
  create.create_options = values.data();
  create.num_options = values.size();
  if (key_values != nullptr) {
    key_values_ = std::make_unique<KeyValueAccess>(*key_values);
    key_values_->fill_in(create);
  }
  PJRT_Error* const error = api_->PJRT_Client_Create(&create);
  if (key_values_) key_values_->close(error == nullptr ? "" : message_of(api_, error));
  require(error, "opened no client; a TPU or GPU may be missing, or in use by another process");
  client_ = create.client;
  PODIUM_PJRT_ARGS(list, PJRT_Client_AddressableDevices_Args);
  list.client = client_;
  require(api_->PJRT_Client_AddressableDevices(&list), "does not list its devices");
  devices_.assign(list.addressable_devices,
                  list.addressable_devices + list.num_addressable_devices);
  for (PJRT_Device* const device : devices_) {
    PODIUM_PJRT_ARGS(id, PJRT_DeviceDescription_Id_Args);
    id.device_description = description(device);
    require(api_->PJRT_DeviceDescription_Id(&id), "does not number its devices");
    ids_.push_back(id.id);
  }
  PODIUM_REQUIRE(!devices_.empty(), ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path_,
                 ": the plugin works, but this machine has no device for it; ", kRemedy);
}

PJRT_DeviceDescription* Plugin::description(PJRT_Device* device) const {
  PODIUM_PJRT_ARGS(get, PJRT_Device_GetDescription_Args);
  get.device = device;
  require(api_->PJRT_Device_GetDescription(&get), "does not describe its devices");
  return get.device_description;
}

namespace {

// To open a device takes time, and a run asks for its device more than once. First called after a
// plugin was opened, so that it ends before what the plugin's library has for the whole process.
std::shared_ptr<Plugin>& last_opened() {
  static std::shared_ptr<Plugin> plugin;
  return plugin;
}

}  // namespace

std::shared_ptr<Plugin> Plugin::from_environment(KeyValues* key_values) {
  const char* const path = std::getenv("PODIUM_PJRT_PLUGIN");
  PODIUM_REQUIRE(path != nullptr && *path != '\0', ExitCode::kUsage,
                 "--backend pjrt: name the plugin of your device in PODIUM_PJRT_PLUGIN, such as "
                 "PODIUM_PJRT_PLUGIN=/usr/lib/libtpu.so (docs/tpu.md)");
  const char* const options = std::getenv("PODIUM_PJRT_OPTIONS");
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  static std::map<std::pair<std::string, std::string>, std::weak_ptr<Plugin>> open;
  std::weak_ptr<Plugin>& known = open[{path, options == nullptr ? "" : options}];
  std::shared_ptr<Plugin> plugin = known.lock();
  if (!plugin) {
    if (open.size() > 1) last_opened().reset();
    plugin = std::make_shared<Plugin>(path, options == nullptr ? "" : options, key_values);
    known = plugin;
  }
  last_opened() = plugin;
  return plugin;
}

Plugin::~Plugin() {
  if (client_ == nullptr) return;
  PODIUM_PJRT_ARGS(args, PJRT_Client_Destroy_Args);
  args.client = client_;
  destroy(api_, api_->PJRT_Client_Destroy(&args));
}

void Plugin::require(PJRT_Error* error, const std::string& what) const {
  require_none(api_, path_, error, what);
}

void Plugin::await(PJRT_Event* event, const std::string& what) const {
  if (event == nullptr) return;
  PODIUM_PJRT_ARGS(wait, PJRT_Event_Await_Args);
  wait.event = event;
  PJRT_Error* const error = api_->PJRT_Event_Await(&wait);
  PODIUM_PJRT_ARGS(end, PJRT_Event_Destroy_Args);
  end.event = event;
  destroy(api_, api_->PJRT_Event_Destroy(&end));
  require(error, what);
}

PluginFacts Plugin::facts() const {
  PluginFacts facts;
  facts.path = path_;
  facts.api_major = api_->pjrt_api_version.major_version;
  facts.api_minor = api_->pjrt_api_version.minor_version;
  PODIUM_PJRT_ARGS(name, PJRT_Client_PlatformName_Args);
  name.client = client_;
  require(api_->PJRT_Client_PlatformName(&name), "does not name its platform");
  facts.platform.assign(name.platform_name, name.platform_name_size);
  PODIUM_PJRT_ARGS(version, PJRT_Client_PlatformVersion_Args);
  version.client = client_;
  require(api_->PJRT_Client_PlatformVersion(&version), "does not name its version");
  facts.version.assign(version.platform_version, version.platform_version_size);
  for (PJRT_Device* const device : devices_) {
    DeviceFacts& found = facts.devices.emplace_back();
    PODIUM_PJRT_ARGS(kind, PJRT_DeviceDescription_Kind_Args);
    kind.device_description = description(device);
    require(api_->PJRT_DeviceDescription_Kind(&kind), "does not name the kind of its devices");
    found.kind.assign(kind.device_kind, kind.device_kind_size);
    if (!PODIUM_PJRT_HAS(api_, PJRT_Device_MemoryStats)) continue;
    PODIUM_PJRT_ARGS(stats, PJRT_Device_MemoryStats_Args);
    stats.device = device;
    PJRT_Error* const error = api_->PJRT_Device_MemoryStats(&stats);
    if (error == nullptr && stats.bytes_limit_is_set) found.memory_bytes = stats.bytes_limit;
    destroy(api_, error);  // many plugins do not say
  }
  return facts;
}

// What decides into what a module is compiled.
std::string Plugin::maker(const std::string& options) const {
  const PluginFacts facts = this->facts();
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path_, error).time_since_epoch().count();
  std::string text = cat("plugin ", facts.platform, " ", facts.version, ", API ", facts.api_major,
                         ".", facts.api_minor, ", ", std::filesystem::file_size(path_, error),
                         " bytes of ", time, "\ndevices ", facts.devices.size(), " ",
                         facts.devices[0].kind, "\noptions ", options, "\n");
  for (const char* name : {"NPROC", "XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    const char* const value = std::getenv(name);
    text += cat(name, " ", value == nullptr ? "" : value, "\n");
  }
  for (const char* const flag : flags_of(facts.platform)) text += cat("flag ", flag, "\n");
  return text + processor();
}

std::shared_ptr<Program> Plugin::kept(const std::string& module) {
  std::optional<std::string> bytes = cache_.find(module);
  if (!bytes) return nullptr;
  PODIUM_PJRT_ARGS(args, PJRT_Executable_DeserializeAndLoad_Args);
  args.client = client_;
  args.serialized_executable = bytes->data();
  args.serialized_executable_size = bytes->size();
  if (PJRT_Error* const error = api_->PJRT_Executable_DeserializeAndLoad(&args)) {
    log(LogLevel::kInfo, cat(cache_.path_of(module), ": the plugin does not take it back (",
                             message_of(api_, error), "); the program is compiled anew"));
    destroy(api_, error);
    return nullptr;
  }
  return std::make_shared<Program>(api_, args.loaded_executable);
}

void Plugin::keep(const Program& program, const std::string& module) {
  PODIUM_PJRT_ARGS(get, PJRT_LoadedExecutable_GetExecutable_Args);
  get.loaded_executable = program.executable();
  require(api_->PJRT_LoadedExecutable_GetExecutable(&get), "does not show what it compiled");
  PODIUM_PJRT_ARGS(args, PJRT_Executable_Serialize_Args);
  args.executable = get.executable;
  if (PJRT_Error* const error = api_->PJRT_Executable_Serialize(&args)) {
    log(LogLevel::kInfo, cat("the PJRT plugin ", path_, " does not hand out compiled programs (",
                             message_of(api_, error), "), so each start compiles them anew"));
    destroy(api_, error);
    cache_ = {};
  } else {
    cache_.keep(module, {args.serialized_bytes, args.serialized_bytes_size});
    if (args.serialized_executable_deleter != nullptr)
      args.serialized_executable_deleter(args.serialized_executable);
  }
  PODIUM_PJRT_ARGS(end, PJRT_Executable_Destroy_Args);
  end.executable = get.executable;
  destroy(api_, api_->PJRT_Executable_Destroy(&end));
}

std::shared_ptr<Program> Plugin::compile(const std::string& module, const std::string& what,
                                         std::span<const int> devices) {
  if (auto program = kept(module)) return program;
  const Clock::time_point start = Clock::now();
  PODIUM_PJRT_ARGS(program, PJRT_Program);
  std::string code = module;
  program.code = code.data();
  program.code_size = code.size();
  program.format = "mlir";
  program.format_size = 4;
  CompileFor target;
  target.platform = facts().platform;
  if (devices.size() > 1) {
    target.devices = static_cast<int>(devices.size());
    for (const int device : devices) target.ids.push_back(ids_[static_cast<std::size_t>(device)]);
  }
  const std::string options = compile_options(target);
  PODIUM_PJRT_ARGS(args, PJRT_Client_Compile_Args);
  args.client = client_;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  {
    const Patience patience(what);
    require(api_->PJRT_Client_Compile(&args), cat("cannot compile ", what));
  }
  auto made = std::make_shared<Program>(api_, args.executable);
  if (cache_.keeps() && seconds_since(start) > kWorthKeeping) keep(*made, module);
  return made;
}

std::vector<SharedArray> Plugin::run(const Program& program, int device,
                                     const std::vector<SharedArray>& inputs, std::size_t results,
                                     const std::string& what) {
  return run_together(program, {&device, 1}, {inputs}, results, what)[0];
}

std::vector<std::vector<SharedArray>> Plugin::run_together(
    const Program& program, std::span<const int> devices,
    const std::vector<std::vector<SharedArray>>& inputs, std::size_t results,
    const std::string& what) {
  const std::size_t count = devices.size();
  std::vector<std::vector<PJRT_Buffer*>> taken(count), made(count);
  std::vector<PJRT_Buffer* const*> lists;
  std::vector<PJRT_Buffer**> made_lists;
  for (std::size_t d = 0; d < count; ++d) {
    for (const SharedArray& input : inputs[d]) taken[d].push_back(input->buffer());
    made[d].resize(results);
    lists.push_back(taken[d].data());
    made_lists.push_back(made[d].data());
  }
  PODIUM_PJRT_ARGS(options, PJRT_ExecuteOptions);
  PODIUM_PJRT_ARGS(args, PJRT_LoadedExecutable_Execute_Args);
  args.executable = program.executable();
  args.options = &options;
  args.argument_lists = lists.data();
  args.num_devices = count;
  args.num_args = taken[0].size();
  args.output_lists = made_lists.data();
  if (count == 1) args.execute_device = devices_[static_cast<std::size_t>(devices[0])];
  require(api_->PJRT_LoadedExecutable_Execute(&args), cat("failed to run ", what, kGoesOn));
  std::vector<std::vector<SharedArray>> arrays(count);
  for (std::size_t d = 0; d < count; ++d)
    for (PJRT_Buffer* const buffer : made[d])
      arrays[d].push_back(std::make_shared<Array>(api_, buffer));
  return arrays;
}

SharedArray Plugin::upload(int device, const void* words, std::int64_t count, DType dtype) {
  PODIUM_PJRT_ARGS(args, PJRT_Client_BufferFromHostBuffer_Args);
  args.client = client_;
  args.data = words;
  args.type = dtype == DType::kF32   ? PJRT_Buffer_Type_F32
              : dtype == DType::kI32 ? PJRT_Buffer_Type_S32
                                     : PJRT_Buffer_Type_U32;
  args.dims = &count;
  args.num_dims = 1;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices_[static_cast<std::size_t>(device)];
  require(api_->PJRT_Client_BufferFromHostBuffer(&args), "did not accept data");
  auto array = std::make_shared<Array>(api_, args.buffer);
  await(args.done_with_host_buffer, "did not accept data");
  return array;
}

void Plugin::download(const Array& array, void* to, std::int64_t bytes) {
  PODIUM_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
  args.src = array.buffer();
  args.dst = to;
  args.dst_size = static_cast<std::size_t>(bytes);
  require(api_->PJRT_Buffer_ToHostBuffer(&args), "did not return data");
  await(args.event, cat("failed in the middle of a step", kGoesOn));
}

SharedArray Plugin::copy_to(const Array& array, int device) {
  PODIUM_PJRT_ARGS(args, PJRT_Buffer_CopyToDevice_Args);
  args.buffer = array.buffer();
  args.dst_device = devices_[static_cast<std::size_t>(device)];
  require(api_->PJRT_Buffer_CopyToDevice(&args), "could not copy from one device to another");
  return std::make_shared<Array>(api_, args.dst_buffer);
}

}  // namespace podium::pjrt
