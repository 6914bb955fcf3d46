// A source: labelled images of one shape, by index. It need not be in memory: an ImageSet is
// (data/image_set.h), photographs are decoded when they are read (data/picture_source.h). The
// loader, the trainer and the evaluation know nothing else of where examples come from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"

namespace podium {

// The changes of an image are a function of these.
struct AugmentKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t example = 0;  // index in the dataset
};

// Labels are below this.
inline constexpr std::int64_t kMostClasses = 1 << 20;

// How many examples there are, and what each of them is.
struct SourceFields {
  std::int64_t count = 0;  // examples
  std::int64_t channels = 1, height = 0, width = 0;
  std::int64_t classes = 0;                   // labels are in [0, classes)
  std::string source;                         // the folder or procedure of origin, for people
  std::vector<std::string> class_names = {};  // by label; none: classes have only numbers

  std::int64_t image_bytes() const { return channels * height * width; }
  // The name of a class; its number where they have no names.
  std::string class_name(std::int64_t label) const;
};

// Immutable once it is handed to a loader, so threads may share it.
class Source : public SourceFields {
 public:
  Source() = default;
  // Of so many examples of this kind.
  explicit Source(SourceFields fields) : SourceFields(std::move(fields)) {}
  virtual ~Source();

  // What read() gives.
  struct Example {
    const std::uint8_t* pixels =
        nullptr;             // [channels, height, width]: the source's memory or `out`
    std::int32_t label = 0;  // 0 where labels are not known
  };
  // Example `index`. With a key as training sees it: a crop, where the source makes one, is a
  // function of the key. Without one as evaluation sees it. `out` has image_bytes(); it need not
  // be used. Throws UserError(kData), which names the file, where an example cannot be read.
  virtual Example read(std::int64_t index, const AugmentKey* key, std::uint8_t* out) const = 0;
  // The label of an example, without reading the example.
  virtual std::int32_t label(std::int64_t index) const = 0;
  virtual bool has_labels() const { return true; }
  // Asks for the memory of an example that will soon be read.
  virtual void prefetch(std::int64_t /*index*/) const {}

  // Throws UserError(kData) where it cannot be trained on or evaluated on; `what` begins the text.
  virtual void require_usable(const std::string& what) const = 0;
  // What tells it from other sources, for people: how many examples, their hash, and the versions
  // of what decodes them. Throws Stopped as `stop` says.
  virtual std::string identity(StopToken stop) const = 0;
  // The memory that its examples take.
  virtual std::int64_t memory_bytes() const = 0;
  // True where an example costs so much to read that threads should do it ahead of the step.
  virtual bool is_slow() const { return false; }

 protected:
  // Copied and moved as what it is, by its own kind alone.
  Source(const Source&) = default;
  // Likewise.
  Source(Source&&) = default;
  Source& operator=(const Source&) = default;
  Source& operator=(Source&&) = default;
};

}  // namespace podium
