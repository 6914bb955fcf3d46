#include "base/shared_object.h"

#include <dlfcn.h>
#include <elf.h>

#include <array>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace podium {
namespace {

struct Machine {
  int number;
  const char* name;
};
constexpr Machine kMachines[] = {
    {EM_386, "32-bit x86"},     {EM_X86_64, "x86-64"},        {EM_ARM, "32-bit Arm"},
    {EM_AARCH64, "64-bit Arm"}, {EM_PPC64, "64-bit PowerPC"}, {EM_RISCV, "RISC-V"},
    {EM_S390, "IBM Z"}};
#if defined(__x86_64__)
constexpr int kThis = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kThis = EM_AARCH64;
#else
constexpr int kThis = EM_NONE;  // then no file is called foreign
#endif

std::string name_of(int number) {
  for (const Machine& machine : kMachines)
    if (machine.number == number) return machine.name;
  return cat("machine ", number, " of ELF");
}

// The machine of an ELF file; EM_NONE if it is none, or of the other byte order.
int machine_of(const std::string& path) {
  std::array<char, offsetof(Elf64_Ehdr, e_machine) + sizeof(Elf64_Half)> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(head.data(), head.size()) || std::memcmp(head.data(), ELFMAG, SELFMAG) != 0 ||
      head[EI_DATA] != ELFDATA2LSB)
    return EM_NONE;
  Elf64_Half machine = 0;
  std::memcpy(&machine, head.data() + offsetof(Elf64_Ehdr, e_machine), sizeof machine);
  return machine;
}

}  // namespace

std::string why_not_loaded(const std::string& path) {
  const char* const words = ::dlerror();
  const int machine = machine_of(path);
  if (kThis != EM_NONE && machine != EM_NONE && machine != kThis)
    return cat("it was built for ", name_of(machine), ", and this machine is ", name_of(kThis));
  return words == nullptr ? "unknown reason" : words;
}

}  // namespace podium
