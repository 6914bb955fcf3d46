// A PJRT plugin: a library that is opened at run time and brings a compiler and its devices
// (openxla.org/xla/pjrt). Only its C API is used. What follows from an error of the plugin is one
// UserError that quotes the plugin's message.
//
//   PODIUM_PJRT_PLUGIN   the library
//   PODIUM_PJRT_OPTIONS  options of the plugin, NAME=VALUE,NAME=VALUE: cpu_device_count=4. The
//                        values `rank` and `ranks` stand for the number of this process and of all
//   NPROC                threads of XLA's CPU, 8 where it is not set; they decide the order of sums
//   PODIUM_PJRT_CACHE    the folder of compiled programs (program_cache.h)
//   PODIUM_PJRT_REPLICAS in-turn or side-by-side: how a device computes its replicas
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "backend/pjrt/program_cache.h"
#include "base/error.h"
#include "tensor/tensor.h"

// NOLINTBEGIN(readability-identifier-naming): the names of the C API
struct PJRT_Api;
struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_DeviceDescription;
struct PJRT_Error;
struct PJRT_Event;
struct PJRT_LoadedExecutable;
// NOLINTEND(readability-identifier-naming)

namespace podium {
class KeyValues;
}

namespace podium::pjrt {

class KeyValueAccess;

// Of a device of a plugin.
struct DeviceFacts {
  std::string kind;               // "TPU v5 lite", "cpu"
  std::int64_t memory_bytes = 0;  // 0: the plugin does not say
};

struct PluginFacts {
  std::string path, platform, version;  // "cpu"
  int api_major = 0, api_minor = 0;
  std::vector<DeviceFacts> devices;
};

// A vector of 32-bit words in the memory of one device.
class Array {
 public:
  Array(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  PJRT_Buffer* buffer() const { return buffer_; }

 private:
  const PJRT_Api* api_;
  PJRT_Buffer* buffer_;
};
using SharedArray = std::shared_ptr<Array>;

// A compiled program. It runs on any device of the client, or on several at once.
class Program {
 public:
  Program(const PJRT_Api* api, PJRT_LoadedExecutable* executable)
      : api_(api), executable_(executable) {}
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  PJRT_LoadedExecutable* executable() const { return executable_; }
  ProgramMemory memory() const;

 private:
  const PJRT_Api* api_;
  PJRT_LoadedExecutable* executable_;
};

// An opened plugin, its client and its devices. Every call may come from any thread.
class Plugin {
 public:
  // Opens the library, or throws UserError, which says what is wrong with it and what to do.
  // `options`: as PODIUM_PJRT_OPTIONS has them.
  // With the key-values of several processes (may be null), its client may be one of all of them.
  Plugin(const std::string& path, const std::string& options, KeyValues* key_values = nullptr);
  // Of the environment: all who have one at a time have the same, since a TPU belongs to one
  // client, and it stays open until another is asked for. Throws UserError where
  // PODIUM_PJRT_PLUGIN is not set.
  static std::shared_ptr<Plugin> from_environment(KeyValues* key_values = nullptr);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  PluginFacts facts() const;
  int devices() const { return static_cast<int>(devices_.size()); }

  // Compiles a module of StableHLO, or loads it where it was compiled before: for several devices
  // at once, or for one, which run() names. `what` names it in errors, and in a line of talk where
  // compiling takes longer than a second.
  std::shared_ptr<Program> compile(const std::string& module, const std::string& what,
                                   std::span<const int> devices = {});
  // Enqueued; `arguments` and the results lie on the device. An argument that the module donates is
  // used up.
  std::vector<SharedArray> run(const Program& program, int device,
                               const std::vector<SharedArray>& arguments, std::size_t results,
                               const std::string& what);
  // The same on the devices that the program was compiled for, in their order, at once.
  std::vector<std::vector<SharedArray>> run_together(
      const Program& program, std::span<const int> devices,
      const std::vector<std::vector<SharedArray>>& arguments, std::size_t results,
      const std::string& what);
  // Returns when `words` may be changed.
  SharedArray upload(int device, const void* words, std::int64_t count, DType dtype);
  // Waits.
  void download(const Array& array, void* to, std::int64_t bytes);
  SharedArray copy_to(const Array& array, int device);

 private:
  void create_client(const std::string& options, KeyValues* key_values);
  PJRT_DeviceDescription* description(PJRT_Device* device) const;
  std::string maker(const std::string& options) const;
  // Null where it is not kept, or the plugin takes none back.
  std::shared_ptr<Program> kept(const std::string& module);
  void keep(const Program& program, const std::string& module);
  // Throws UserError for an error, which it destroys.
  void require(PJRT_Error* error, const std::string& what) const;
  void await(PJRT_Event* event, const std::string& what) const;

  std::string path_;
  const PJRT_Api* api_ = nullptr;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
  std::vector<std::int64_t> ids_;  // of these
  // What the client's callbacks have, as long as the client lives.
  std::unique_ptr<KeyValueAccess> key_values_;
  ProgramCache cache_;
};

}  // namespace podium::pjrt
