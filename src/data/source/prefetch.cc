#include "data/source/prefetch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace podium {
Prefetcher::Prefetcher(std::shared_ptr<const Loader> loader, PrefetchOptions options)
    : loader_(std::move(loader)), options_(options), next_step_(options.first_step) {
  PODIUM_CHECK(options.threads >= 1 && options.depth >= 1 && options.readers >= 1);
  PODIUM_CHECK(options.first_step >= 0 && options.first_step <= options.end_step);
  if (options_.examples == 0) options_.examples = loader_->options().batch - options_.first_example;
  const std::int64_t examples = options_.examples;
  PODIUM_CHECK(options_.first_example >= 0 && examples >= 1 &&
               options_.first_example + examples <= loader_->options().batch);
  slots_.resize(static_cast<std::size_t>(options.depth));
  for (Slot& slot : slots_) {
    slot.releases = options.readers;  // free
    for (const Field& field : loader_->fields())
      slot.batch.fields.emplace_back(field.batch(examples));
  }
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Prefetcher::~Prefetcher() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Prefetcher::work(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (stop.stop_requested() || next_step_ == options_.end_step) return;
    const std::int64_t step = next_step_, first = next_example_;
    const std::int64_t count = std::min(kPrefetchedAtOnce, options_.examples - first);
    next_example_ += count;
    if (next_example_ == options_.examples) ++next_step_, next_example_ = 0;
    Slot& slot = slot_of(step);
    // The slot's last step, if it had one, is `depth` before: its readers must be done with it.
    const bool free = freed_.wait(lock, stop, [&] {
      return slot.step == step || (slot.releases == options_.readers &&
                                   (slot.step == -1 || slot.step == step - options_.depth));
    });
    if (!free) return;
    if (slot.step != step) {
      slot.step = step;
      slot.unmade = options_.examples;
      slot.releases = 0;
    }
    lock.unlock();
    std::exception_ptr error;
    try {
      const std::vector<Field>& fields = loader_->fields(loader_->bucket_of(step));
      std::vector<void*> to;
      for (std::size_t i = 0; i < fields.size(); ++i)
        to.push_back(static_cast<std::byte*>(slot.batch.fields[i].data()) +
                     first * fields[i].bytes());
      loader_->examples(step, options_.first_example + first, count, to);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.unmade -= count;
    const bool made = slot.unmade == 0 || error;
    if (error && !error_) error_ = error;
    lock.unlock();
    if (made) made_.notify_all();
    if (error) return;
  }
}

const Prefetcher::Batch& Prefetcher::wait(std::int64_t step) {
  PODIUM_CHECK(step >= options_.first_step && step < options_.end_step, step);
  Slot& slot = slot_of(step);
  std::unique_lock lock(mutex_);
  const auto done = [&] { return error_ != nullptr || (slot.step == step && slot.unmade == 0); };
  if (!done()) {
    const auto start = std::chrono::steady_clock::now();
    for (double patience = options_.patience_seconds;
         !made_.wait_until(lock, start + std::chrono::duration<double>(patience), done);
         patience *= 2) {
      const std::pair<std::int64_t, double> late(step, patience);
      if (late <= warned_of_) continue;  // another reader has said so
      warned_of_ = late;
      lock.unlock();
      log(LogLevel::kWarning,
          cat("step ", step + 1, " has waited ", patience, " s for examples of ",
              loader_->set().origin(), " (the disk answers late, or decoding needs more ",
              "--input-threads); the run goes on when they are there"));
      lock.lock();
    }
    const auto time = std::chrono::steady_clock::now() - start;
    nanoseconds_waited_ += std::chrono::nanoseconds(time).count();
  }
  if (error_) std::rethrow_exception(error_);
  return slot.batch;
}

void Prefetcher::release(std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slot_of(step);
    PODIUM_CHECK(slot.step == step && slot.releases < options_.readers, step);
    if (++slot.releases < options_.readers) return;
  }
  freed_.notify_all();
}

}  // namespace podium
