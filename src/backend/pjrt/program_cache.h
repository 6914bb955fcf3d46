// Compiled programs kept on disk, so that the next start of a run does not compile them again.
//
//   PODIUM_PJRT_CACHE   the folder; empty: none are kept. Not set: programs/ in the user's cache
//                       folder (base/cache_file.h)
//
// A file holds one program with all that it was compiled from. One that is damaged, or of another
// module, is passed over with a line of talk and written anew.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace podium::pjrt {

class ProgramCache {
 public:
  ProgramCache() = default;  // keeps nothing
  // `maker`: in words, all that decides what a module is compiled to, beside the module.
  ProgramCache(std::string folder, std::string maker);
  // In the folder of the environment.
  static ProgramCache of_environment(std::string maker);

  bool keeps() const { return !folder_.empty(); }
  // The program that this maker made of the module.
  std::optional<std::string> find(const std::string& module) const;
  void keep(const std::string& module, std::string_view program) const;
  std::string path_of(const std::string& module) const;

 private:
  std::string folder_, maker_;
};

// Of the machine: what XLA's CPU compiles for. Another processor may lack an instruction.
std::string processor();

}  // namespace podium::pjrt
