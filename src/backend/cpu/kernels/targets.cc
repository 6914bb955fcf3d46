#include "backend/cpu/kernels/targets.h"

#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "hwy/highway.h"

namespace podium::cpu {

namespace internal {
std::atomic<bool> vector_target_chosen{false};
}

namespace {

std::mutex& choice_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string name_of(std::int64_t target) {
  switch (target) {
#if HWY_ARCH_X86
    case HWY_AVX2: return "avx2";
    case HWY_AVX3: return "avx512";
#endif
    default: return "neon";
  }
}

// The bits of this machine's targets, best first (Highway orders them so).
std::vector<std::int64_t> machine_targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t rest = HWY_SUPPORTED_TARGETS & (HWY_TARGETS); rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    if (result.empty() || name_of(result.back()) != name_of(target)) result.push_back(target);
  }
  return result;
}

std::int64_t chosen_target = 0;  // under choice_mutex

// False if the machine has no such target.
bool use(const std::string& name) {
  for (const std::int64_t target : machine_targets()) {
    if (name_of(target) == name) {
      chosen_target = target;
#if (HWY_TARGETS & (HWY_TARGETS - 1)) != 0  // else HWY_DYNAMIC_DISPATCH has no choice to make
      hwy::GetChosenTarget().Update(target);
#endif
      internal::vector_target_chosen.store(true, std::memory_order_release);
      return true;
    }
  }
  return false;
}

std::string list_of_targets() {
  std::string list;
  for (const std::string& name : vector_targets()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

std::vector<std::string> vector_targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : machine_targets()) names.push_back(name_of(target));
  return names;
}

std::string vector_target() {
  choose_vector_target();
  const std::lock_guard lock(choice_mutex());
  return name_of(chosen_target);
}

void set_vector_target(const std::string& name) {
  const std::lock_guard lock(choice_mutex());
  PODIUM_REQUIRE(use(name), ExitCode::kUsage, "vector target \"", name,
                 "\" is not one of this machine's: ", list_of_targets());
}

void choose_vector_target() {
  const std::lock_guard lock(choice_mutex());
  if (internal::vector_target_chosen.load(std::memory_order_acquire)) return;
  const char* wanted = std::getenv("PODIUM_VECTOR_TARGET");
  const std::string name =
      wanted != nullptr && *wanted != '\0' ? wanted : name_of(machine_targets().front());
  PODIUM_REQUIRE(use(name), ExitCode::kUsage, "environment variable PODIUM_VECTOR_TARGET: \"", name,
                 "\" is not one of this machine's vector targets: ", list_of_targets());
}

}  // namespace podium::cpu
