// One line a backend.
#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"

namespace podium {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Backend> (*make)();
};

constexpr Entry kBackends[] = {
    {"cpu", make_cpu_backend},
    {"reference", make_reference_backend},
};

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kBackends) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Backend> make_backend(const std::string& name) {
  std::string known;
  for (const Entry& entry : kBackends) {
    if (name.empty() || name == entry.name) return entry.make();
    known += cat(known.empty() ? "" : ", ", entry.name);
  }
  throw UserError(cat("--backend ", name, ": no such backend; this build has ", known));
}

}  // namespace podium
