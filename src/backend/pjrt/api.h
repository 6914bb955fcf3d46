// The C API of a plugin, for the files of this folder: opening it, its structs, its errors.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace podium::pjrt {

template <typename Args>
Args arguments(std::size_t struct_size) {
  Args args;
  std::memset(&args, 0, sizeof args);
  args.struct_size = struct_size;
  return args;
}
// A struct of arguments, all zeros but for its size, by which plugins tell versions apart.
#define PODIUM_PJRT_ARGS(name, type) type name = arguments<type>(type##_STRUCT_SIZE)

// Opens the library and compares versions. Throws UserError. Does not initialise the plugin.
const PJRT_Api* open_plugin(const std::string& path);
// Whether the plugin has the function at this offset of its API: an older one ends before it.
bool has(const PJRT_Api* api, std::size_t offset);
#define PODIUM_PJRT_HAS(api, name) has(api, offsetof(PJRT_Api, name))

// Nothing where `error` is null. Otherwise destroys it and throws UserError: "the PJRT plugin
// PATH WHAT", and the plugin's message.
void require_none(const PJRT_Api* api, const std::string& path, PJRT_Error* error,
                  const std::string& what);
void destroy(const PJRT_Api* api, PJRT_Error* error);

// What a program is compiled for.
struct CompileFor {
  int devices = 1;                // at once
  std::vector<std::int64_t> ids;  // theirs; none: for one device, any of the client's; for several,
                                  // the plugin chooses
  bool is_only_looked_at = false;  // never run
  std::string platform;            // the plugin's, such as "cuda"
};
// CompileOptionsProto, serialised.
std::string compile_options(const CompileFor& target);

}  // namespace podium::pjrt
