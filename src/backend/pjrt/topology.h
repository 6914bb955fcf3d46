// Compiles a program for devices that are not there: a plugin such as libtpu has the compiler of
// its TPUs, which needs none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace podium::pjrt {

// What the plugin says of a program that it compiled.
struct CompiledFacts {
  std::string platform;
  int devices = 0;     // of the topology, as the plugin counts them: chips, or cores of these
  double seconds = 0;  // of compiling
  double flops = 0, bytes_accessed = 0;
  // In bytes, of one device. `peak` and the device's `limit` are 0 where the plugin does not say.
  std::int64_t arguments = 0, results = 0, temporary = 0, code = 0, peak = 0, limit = 0;
  // Of convolutions and products: how many have a precision ("highest", "default"). Of collectives:
  // how many there are of each kind ("all-gather of u32").
  std::map<std::string, int> precisions, collectives;
};

// A module, and how many devices run it at once.
struct ProgramOfDevices {
  std::string module;
  int devices = 1;
};

// `topology` as the plugin names it: "v5e:2x4". `program_for`: what is compiled, where it has so
// many devices. Throws UserError, with ExitCode::kMemory where it needs more memory than a device
// has.
CompiledFacts compile_for(const std::string& plugin, const std::string& topology,
                          const std::function<ProgramOfDevices(int devices)>& program_for);

}  // namespace podium::pjrt
