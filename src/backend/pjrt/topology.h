// Compiles a program for devices that are not there: a plugin such as libtpu has the compiler of
// its TPUs, which needs none.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace podium::pjrt {

// What the plugin says of a program that it compiled.
struct CompiledFacts {
  std::string platform;
  std::int64_t chips = 0;  // of the topology: devices, as the plugin counts them
  double seconds = 0;      // of compiling
  double flops = 0, bytes_accessed = 0;
  // In bytes, of one device. `peak` is 0 where the plugin does not say.
  std::int64_t arguments = 0, results = 0, temporary = 0, code = 0, peak = 0;
  // Of convolutions and products: how many have a precision ("highest", "default"), and how many
  // collectives of each kind there are.
  std::map<std::string, int> precisions, collectives;
};

// `topology` as the plugin names it: "v5e:2x4". The program runs on one of its devices. Throws
// UserError, with ExitCode::kMemory where it needs more memory than a device has.
CompiledFacts compile_for(const std::string& plugin, const std::string& topology,
                          const std::string& module);

}  // namespace podium::pjrt
