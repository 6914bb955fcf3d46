#include "data/source/loader.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/error.h"
#include "data/source/shuffle.h"

namespace podium {
namespace {

// Examples lie anywhere in memory: each is asked for this many before its turn.
constexpr std::int64_t kAhead = 4;
// More would be a list in itself; and `read` keeps the pointers of an example on the stack.
constexpr std::size_t kMostFields = 64;

}  // namespace

Loader::Loader(std::shared_ptr<const Source> set, LoaderOptions options)
    : set_(std::move(set)), options_(options), fields_(set_->fields()) {
  PODIUM_REQUIRE(options_.batch >= 1 && options_.batch <= set_->examples(), ExitCode::kUsage,
                 "[loader] batch is ", options_.batch, ", but the training set has ",
                 set_->examples(), " examples (", set_->origin(),
                 "); the batch must be between 1 and that number");
  PODIUM_REQUIRE(fields_.size() <= kMostFields, ExitCode::kData, set_->origin(), ": ",
                 fields_.size(), " fields; an example has at most ", kMostFields);
  for (const Field& field : fields_) {
    PODIUM_REQUIRE(std::ranges::count(fields_, field.name, &Field::name) == 1, ExitCode::kData,
                   set_->origin(), ": two fields are named \"", field.name,
                   "\"; fields: ", to_text(fields_));
    bytes_.push_back(field.bytes());
  }
  steps_per_epoch_ = set_->examples() / options_.batch;
}

Loader::Order Loader::order_of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(epoch % 2)];
  if (slot.epoch != epoch) {
    slot.order = std::make_shared<const std::vector<std::uint32_t>>(
        epoch_order(options_.seed, epoch, set_->examples()));
    slot.epoch = epoch;
  }
  return slot.order;
}

// As row `row` of the fields.
void Loader::read(std::int64_t index, const ExampleKey* key, std::int64_t row,
                  FieldMemory to) const {
  std::array<void*, kMostFields> at;
  for (std::size_t i = 0; i < bytes_.size(); ++i) at[i] = to.at<std::byte>(i) + row * bytes_[i];
  set_->read(index, key, std::span<void* const>(at).first(bytes_.size()));
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
      case VisitOrder::kShuffled: return (*order)[static_cast<std::size_t>(start + k)];
      case VisitOrder::kPermuted:
        return permuted(options_.seed, epoch, set_->examples(), start + k);
      case VisitOrder::kStreams: return (first + k) * steps_per_epoch_ + at;
    }
    return 0;
  };
  for (std::int64_t k = 0; k < n; ++k) {
    if (visit == VisitOrder::kShuffled && k + kAhead < n) set_->prefetch(index_of(k + kAhead));
    const ExampleKey key{options_.seed, epoch, index_of(k)};
    read(key.example, &key, k, to);
  }
}

void Loader::example(std::int64_t index, std::int64_t row, FieldMemory to) const {
  PODIUM_CHECK(index >= 0 && index < set_->examples() && row >= 0, index, " ", row);
  read(index, nullptr, row, to);
}

void Loader::in_order(std::int64_t first, std::int64_t n, FieldMemory to) const {
  PODIUM_CHECK(first >= 0 && n >= 0 && first + n <= set_->examples(), first, " ", n);
  for (std::int64_t k = 0; k < n; ++k) read(first + k, nullptr, k, to);
}

}  // namespace podium
