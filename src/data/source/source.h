// A source: labelled images of one shape, by index. An ImageSet is in memory
// (data/pictures/image_set.h); photographs are decoded when they are read
// (data/pictures/picture_source.h). The loader, the trainer and evaluation access examples only
// through this interface.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"

namespace podium {

// Determines the augmentation of an image.
struct AugmentKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t example = 0;  // index in the dataset
};

// Upper limit of the number of classes.
inline constexpr std::int64_t kMostClasses = 1 << 20;

// The number of examples and their shape, classes and origin.
struct SourceFields {
  std::int64_t count = 0;  // examples
  std::int64_t channels = 1, height = 0, width = 0;
  std::int64_t classes = 0;                   // labels are in [0, classes)
  std::string source;                         // the folder or procedure of origin, for people
  std::vector<std::string> class_names = {};  // by label; none: classes have only numbers

  std::int64_t image_bytes() const { return channels * height * width; }
  // The name of a class, or its number if classes have no names.
  std::string class_name(std::int64_t label) const;
};

// A set of examples. Immutable once it is passed to a loader, so threads may share it.
class Source : public SourceFields {
 public:
  Source() = default;
  // A source with these examples.
  explicit Source(SourceFields fields) : SourceFields(std::move(fields)) {}
  virtual ~Source();

  // What read() returns.
  struct Example {
    const std::uint8_t* pixels =
        nullptr;             // [channels, height, width]: the source's memory or `out`
    std::int32_t label = 0;  // 0 where labels are not known
  };
  // Example `index`. With a key, as training sees it: if the source crops, the crop is a function
  // of the key. Without a key, as evaluation sees it. `out` has room for image_bytes(), and may
  // stay unused. Throws UserError(kData), which names the file, if the example cannot be read.
  virtual Example read(std::int64_t index, const AugmentKey* key, std::uint8_t* out) const = 0;
  // The label of an example, without reading the example.
  virtual std::int32_t label(std::int64_t index) const = 0;
  virtual bool has_labels() const { return true; }
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

 protected:
  // Only derived classes can be copied and moved.
  Source(const Source&) = default;
  // Likewise.
  Source(Source&&) = default;
  Source& operator=(const Source&) = default;
  Source& operator=(Source&&) = default;
};

}  // namespace podium
