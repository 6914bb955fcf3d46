#include "train/run/stored_run.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace podium {

bool StoredRun::ends_run(const Trainer& /*trainer*/) {
  if (std::exchange(changed_, false)) stored_.publish_soon();
  return false;
}

void train_into(const std::filesystem::path& out,
                const std::function<void(const std::filesystem::path&, RunObserver&)>& train) {
  if (!is_remote(out.string())) {
    RunObserver nobody;
    train(out, nobody);
    return;
  }
  StoredRun stored(out.string());
  try {
    train(stored.folder(), stored);
  } catch (...) {
    const std::exception_ptr first = std::current_exception();
    try {
      stored.finish();
    } catch (const std::exception& error) {
      log(LogLevel::kWarning, error.what());
    }
    std::rethrow_exception(first);
  }
  stored.finish();
}

}  // namespace podium
