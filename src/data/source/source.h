// A source: a set of examples by index, each a row of named fields (tensor/field.h). Pictures,
// tables and texts are sources; the loader, the trainer and evaluation access examples only through
// this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/stop.h"
#include "tensor/field.h"

namespace podium {

// Determines what is random about an example in training, such as its augmentation.
struct ExampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t example = 0;  // index in the set
};

// Where examples are written: one pointer a field, in the order of the fields. Valid as long as the
// list that it was made of.
class FieldMemory {
 public:
  FieldMemory(std::initializer_list<void*> fields)
      : fields_(fields.begin(), fields.size()) {}                     // for a call's argument
  FieldMemory(std::span<void* const> fields) : fields_(fields) {}     // NOLINT: one is the other
  FieldMemory(const std::vector<void*>& fields) : fields_(fields) {}  // NOLINT
  std::size_t size() const { return fields_.size(); }
  void* operator[](std::size_t field) const { return fields_[field]; }
  // The pointer of a field, as one to its elements.
  template <typename T>
  T* at(std::size_t field) const {
    return static_cast<T*>(fields_[field]);
  }

 private:
  std::span<void* const> fields_;
};

// In which order training visits the examples (data/source/loader.h).
enum class VisitOrder {
  kShuffled,  // every epoch another order, from a table
  kPermuted,  // every epoch another order, computed for each example: for sets of any size
  kStreams,   // row k of a batch goes on, from step to step, where it ended
};

// A set of examples. Immutable once it is passed to a loader, so threads may share it.
class Source {
 public:
  Source() = default;
  virtual ~Source();

  // What each example has.
  virtual std::vector<Field> fields() const = 0;
  // How many there are.
  virtual std::int64_t examples() const = 0;
  // The folder or procedure of origin, for people.
  virtual const std::string& origin() const = 0;
  // What people call example `index`, such as its file's name; empty: it has no name.
  virtual std::string example_name(std::int64_t /*index*/) const { return ""; }
  // Writes example `index`. With a key, as training sees it: whatever is random about it is a
  // function of the key. Without, as evaluation sees it. Thread-safe. Throws UserError(kData),
  // which names the file, if the example cannot be read.
  virtual void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const = 0;
  // Prefetches the memory of an example that will be read soon.
  virtual void prefetch(std::int64_t /*index*/) const {}

  // Throws UserError(kData) if it is not usable for training or evaluation. `what` begins the text.
  virtual void require_usable(const std::string& what) const = 0;
  // Identifies the source, as text for people: the number of examples, their hash, and the versions
  // of the decoders. Throws Stopped if `stop` requests it.
  virtual std::string identity(StopToken stop) const = 0;
  // The memory that its examples occupy.
  virtual std::int64_t memory_bytes() const = 0;
  // Whether reading an example is so expensive that threads should do it ahead of the steps.
  virtual bool is_slow() const { return false; }
  // Allows it so many bytes more, for what it decodes and needs again in the next epoch. False if
  // it decodes nothing. Thread-safe.
  virtual bool keep_decoded(std::int64_t /*bytes*/) const { return false; }
  virtual VisitOrder order() const { return VisitOrder::kShuffled; }
  // The lengths to which examples are filled up in training, ascending: that of a batch is the
  // least which holds its examples, and the last one is that of fields(). Empty: all are alike. A
  // set with some is kShuffled.
  virtual std::vector<std::int64_t> bucket_lengths() const { return {}; }
  // The first of these that holds example `index`, by its place in the list.
  virtual std::size_t bucket_of(std::int64_t /*index*/) const { return 0; }

 protected:
  // Only derived classes can be copied and moved.
  Source(const Source&) = default;
  // Likewise.
  Source(Source&&) = default;
  Source& operator=(const Source&) = default;
  Source& operator=(Source&&) = default;
};

}  // namespace podium
