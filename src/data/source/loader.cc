#include "data/source/loader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/source/shuffle.h"

namespace podium {
namespace {

// Examples lie anywhere in memory: each is asked for this many before its turn.
constexpr std::int64_t kAhead = 4;
// More would be a list in itself; and `read` keeps the pointers of an example on the stack.
constexpr std::size_t kMostFields = 64;
constexpr std::size_t kMostBuckets = 256;

}  // namespace

Loader::Loader(std::shared_ptr<const Source> set, LoaderOptions options)
    : set_(std::move(set)), options_(options) {
  PODIUM_REQUIRE(options_.batch >= 1 && options_.batch <= set_->examples(), ExitCode::kUsage,
                 "[loader] batch is ", options_.batch, ", but the training set has ",
                 set_->examples(), " examples (", set_->origin(),
                 "); the batch must be between 1 and that number");
  const std::vector<Field> fields = set_->fields();
  PODIUM_REQUIRE(fields.size() <= kMostFields, ExitCode::kData, set_->origin(), ": ", fields.size(),
                 " fields; an example has at most ", kMostFields);
  for (const Field& field : fields)
    PODIUM_REQUIRE(std::ranges::count(fields, field.name, &Field::name) == 1, ExitCode::kData,
                   set_->origin(), ": two fields are named \"", field.name,
                   "\"; fields: ", to_text(fields));
  for (const std::int64_t length : set_->bucket_lengths())
    buckets_.push_back({fields_of_length(fields, length), {}});
  if (buckets_.empty()) buckets_.push_back({fields, {}});
  PODIUM_CHECK(buckets_.size() <= kMostBuckets, buckets_.size());
  PODIUM_CHECK(buckets_.size() == 1 || set_->order() == VisitOrder::kShuffled);
  for (Bucket& bucket : buckets_)
    for (const Field& field : bucket.fields) bucket.bytes.push_back(field.bytes());
  steps_per_epoch_ = set_->examples() / options_.batch;
  if (buckets_.size() > 1) count_buckets();
}

// How many batches of an epoch are full.
void Loader::count_buckets() {
  std::vector<std::int64_t> counts(buckets_.size());
  for (std::int64_t i = 0; i < set_->examples(); ++i) ++counts[set_->bucket_of(i)];
  steps_per_epoch_ = 0;
  for (const std::int64_t count : counts) steps_per_epoch_ += count / options_.batch;
  PODIUM_REQUIRE(
      steps_per_epoch_ > 0, ExitCode::kUsage, "[loader] batch is ", options_.batch,
      ", but the most examples of one length are ", std::ranges::max(counts), " (", set_->origin(),
      "); the batch must be between 1 and that number, or there must be ", "fewer buckets");
}

Loader::Epoch Loader::make_order(std::int64_t epoch) const {
  Epoch order{epoch_order(options_.seed, epoch, set_->examples()), {}};
  if (buckets_.size() == 1) return order;
  Epoch batches;
  std::vector<std::vector<std::uint32_t>> open(buckets_.size());
  for (const std::uint32_t example : order.examples) {
    const std::size_t bucket = set_->bucket_of(example);
    std::vector<std::uint32_t>& batch = open[bucket];
    batch.push_back(example);
    if (std::ssize(batch) < options_.batch) continue;
    batches.examples.insert(batches.examples.end(), batch.begin(), batch.end());
    batches.buckets.push_back(static_cast<std::uint8_t>(bucket));
    batch.clear();
  }
  return batches;
}

Loader::Order Loader::order_of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(epoch % 2)];
  if (slot.epoch != epoch) {
    slot.order = std::make_shared<const Epoch>(make_order(epoch));
    slot.epoch = epoch;
  }
  return slot.order;
}

std::size_t Loader::bucket_of(std::int64_t step) const {
  if (buckets_.size() == 1) return 0;
  return order_of(step / steps_per_epoch_)
      ->buckets[static_cast<std::size_t>(step % steps_per_epoch_)];
}

// As row `row` of the fields of `bucket`. A source writes examples of the greatest length, whose
// begin is what a shorter one has of them.
void Loader::read(std::int64_t index, const ExampleKey* key, std::int64_t row, const Bucket& bucket,
                  FieldMemory to) const {
  const std::vector<std::int64_t>&own = bucket.bytes, &whole = buckets_.back().bytes;
  std::array<void*, kMostFields> at;
  std::int64_t cut = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    at[i] = to.at<std::byte>(i) + row * own[i];
    if (own[i] < whole[i]) cut += whole[i];
  }
  const auto fields = std::span<void* const>(at).first(own.size());
  if (cut == 0) return set_->read(index, key, fields);
  AlignedBytes room(static_cast<std::size_t>(cut));
  std::byte* next = room.data();
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i] < whole[i]) at[i] = std::exchange(next, next + whole[i]);
  set_->read(index, key, fields);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i] < whole[i])
      std::memcpy(to.at<std::byte>(i) + row * own[i], at[i], static_cast<std::size_t>(own[i]));
}

void Loader::examples(std::int64_t step, std::int64_t first, std::int64_t n, FieldMemory to) const {
  PODIUM_CHECK(step >= 0 && first >= 0 && n >= 0 && first + n <= options_.batch, step, " ", first,
               " ", n);
  const std::int64_t epoch = step / steps_per_epoch_, at = step % steps_per_epoch_;
  const std::int64_t start = at * options_.batch + first;
  const VisitOrder visit = set_->order();
  const Order order = visit == VisitOrder::kShuffled ? order_of(epoch) : nullptr;
  const auto index_of = [&](std::int64_t k) -> std::int64_t {
    switch (visit) {
      case VisitOrder::kShuffled: return order->examples[static_cast<std::size_t>(start + k)];
      case VisitOrder::kPermuted:
        return permuted(options_.seed, epoch, set_->examples(), start + k);
      case VisitOrder::kStreams: return (first + k) * steps_per_epoch_ + at;
    }
    return 0;
  };
  const Bucket& bucket = buckets_[bucket_of(step)];
  for (std::int64_t k = 0; k < n; ++k) {
    if (visit == VisitOrder::kShuffled && k + kAhead < n) set_->prefetch(index_of(k + kAhead));
    const ExampleKey key{options_.seed, epoch, index_of(k)};
    read(key.example, &key, k, bucket, to);
  }
}

void Loader::example(std::int64_t index, std::int64_t row, FieldMemory to) const {
  PODIUM_CHECK(index >= 0 && index < set_->examples() && row >= 0, index, " ", row);
  read(index, nullptr, row, buckets_.back(), to);
}

void Loader::in_order(std::int64_t first, std::int64_t n, FieldMemory to) const {
  PODIUM_CHECK(first >= 0 && n >= 0 && first + n <= set_->examples(), first, " ", n);
  for (std::int64_t k = 0; k < n; ++k) read(first + k, nullptr, k, buckets_.back(), to);
}

}  // namespace podium
