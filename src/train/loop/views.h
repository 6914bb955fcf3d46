// The mean of a network's logits over several views of each image (base/numerics/view.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/staging.h"
#include "train/loop/batch_memory.h"

namespace podium {

class Views {
 public:
  // Binds `program`, of `evaluation`, to one view of the images in `batch`; the mean goes to the
  // memory of the logits among `outputs`. Throws UserError(kUsage) if there are not 2 or 6 views,
  // and if the network does more than to make logits of images.
  Views(Device& device, int worker, BoundExecutable& program, const Graph& evaluation,
        std::int64_t views, std::span<const std::pair<std::string, Staging>> outputs,
        const BatchMemory& batch);

  // Runs `program` for each view, enqueued.
  void run(BoundExecutable& program);
  std::int64_t count() const { return std::ssize(makers_); }
  // As Inference::visit_programs() does.
  void visit_programs(
      const std::function<void(const char*, std::int64_t, const Plan&)>& visit) const;
  std::int64_t bytes() const { return images_->bytes() + logits_->bytes(); }

 private:
  std::unique_ptr<Buffer> images_, logits_;       // of one view
  std::vector<BoundExecutable> makers_, adders_;  // make the one and add the other, by view
};

}  // namespace podium
