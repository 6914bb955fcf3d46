#include "base/shared_object.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

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

// The header of an ELF file of 64 bits in this machine's byte order.
std::optional<Elf64_Ehdr> header_of(std::ifstream& file) {
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  // A file that ends within it still says what it is.
  const bool has_machine =
      file.gcount() >=
      static_cast<std::streamsize>(offsetof(Elf64_Ehdr, e_machine) + sizeof header.e_machine);
  file.clear();
  if (!has_machine || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return std::nullopt;
  return header;
}

// Where a range ends; all of it for one that no file can have.
std::uint64_t end_of(std::uint64_t begin, std::uint64_t bytes) {
  return begin > ~bytes ? ~std::uint64_t{0} : begin + bytes;
}

// The bytes that the headers say the file has.
std::uint64_t stated_bytes(std::ifstream& file, const Elf64_Ehdr& header) {
  std::uint64_t bytes = sizeof header;
  bytes =
      std::max(bytes, end_of(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize));
  bytes =
      std::max(bytes, end_of(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize));
  if (header.e_phentsize < sizeof(Elf64_Phdr)) return bytes;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) break;
    bytes = std::max(bytes, end_of(segment.p_offset, segment.p_filesz));
  }
  return bytes;
}

// What its headers tell without loading it; empty: nothing.
std::string problem_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::optional<Elf64_Ehdr> header = header_of(file);
  if (!header) return "";
  if (kThis != EM_NONE && header->e_machine != kThis)
    return cat("it was built for ", name_of(header->e_machine), ", and this machine is ",
               name_of(kThis));
  if (header->e_ident[EI_CLASS] != ELFCLASS64) return "";
  std::error_code error;
  const std::uint64_t has = std::filesystem::file_size(path, error);
  const std::uint64_t stated = stated_bytes(file, *header);
  if (error || has >= stated) return "";
  return cat("it is cut short: its headers speak of ", stated, " bytes, and it has ", has,
             "; copy or build it again");
}

}  // namespace

SharedObject load_shared_object(const std::string& path) {
  SharedObject object{.handle = nullptr, .problem = problem_of(path)};
  if (!object.problem.empty()) return object;
  // The header says that it throws nothing, which constructors of the file do not know: called as
  // what it is, an exception arrives here instead of ending the process.
  void* (*const volatile open)(const char*, int) = ::dlopen;
  try {
    object.handle = open(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception& thrown) {
    object.problem = cat("its initialisation threw: ", thrown.what());
    return object;
  } catch (...) {
    object.problem = "its initialisation threw something that is not a std::exception";
    return object;
  }
  if (object.handle != nullptr) return object;
  const char* const words = ::dlerror();
  object.problem = words == nullptr ? "unknown reason" : words;
  return object;
}

}  // namespace podium
