#include <string>
#include <vector>

#include "backend/device.h"
#include "base/words.h"

namespace podium {

void require_bf16_order(const std::string& device, const Bf16Support& support, Bf16Order order) {
  PODIUM_REQUIRE(support.missing.empty(), ExitCode::kUsage, "--backend ", device, ": ",
                 support.missing, "; or use precision=fp32, or --backend cpu");
  if (support.computes(order)) return;
  std::vector<std::string> orders;
  for (const Bf16Order one : support.orders) orders.emplace_back(name_of(one));
  throw UserError(cat("--backend ", device, ": it does not add BF16 products in the order ",
                      name_of(order), " (bf16_order), ",
                      orders.empty() ? "nor in any that a recipe can name"
                                     : cat("only in the order ", join_words(orders)),
                      "; --backend cpu computes every order, and `podium devices` says how fast"));
}

}  // namespace podium
