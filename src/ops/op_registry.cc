#include "ops/op_registry.h"

#include <algorithm>

#include "base/plain_name.h"

namespace podium {
namespace {

std::vector<const OpDef*>& registered() {
  static std::vector<const OpDef*> list;
  return list;
}

}  // namespace

void register_operation(const OpDef& op) {
  const std::string name = op.name == nullptr ? "" : op.name;
  PODIUM_REQUIRE(is_plain_name(name), ExitCode::kUsage, "operation \"", name,
                 "\": a name has letters, digits, '-', '_' and '.', and begins with one of the "
                 "first two");
  const std::vector<const OpDef*> known = known_operations();
  PODIUM_REQUIRE(
      std::ranges::none_of(known, [&](const OpDef* other) { return other->name == name; }),
      ExitCode::kUsage, "operation \"", name, "\" is registered already; give it another name");
  PODIUM_REQUIRE(op.infer != nullptr && op.reference != nullptr, ExitCode::kUsage, "operation \"",
                 name, "\" has no `", op.infer == nullptr ? "infer" : "reference", "`");
  PODIUM_REQUIRE(op.kind == kOwnOperation, ExitCode::kUsage, "operation \"", name,
                 "\" has the kind of one of the library's; leave OpDef::kind as it is");
  registered().push_back(&op);
}

std::vector<const OpDef*> known_operations() {
  std::vector<const OpDef*> all(all_ops().begin(), all_ops().end());
  all.insert(all.end(), registered().begin(), registered().end());
  return all;
}

}  // namespace podium
