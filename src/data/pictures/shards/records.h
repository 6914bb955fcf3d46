// Records: labelled encoded pictures (files, members of archives), by index. What decodes them is
// the same for all (data/pictures/picture_source.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/stop.h"
#include "data/pictures/prepare/crop.h"

namespace podium {

// Immutable, so threads may share them.
class Records {
 public:
  virtual ~Records() = default;
  virtual std::int64_t count() const = 0;
  virtual std::int32_t label(std::int64_t index) const = 0;
  // The place of a record, for people: the path of a file, and where in it.
  virtual std::string name(std::int64_t index) const = 0;
  // Its bytes. Throws UserError(kData) where they are not there any more or not as indexed;
  // BadPicture, which a recipe may pass over, where this record alone is damaged.
  virtual void read(std::int64_t index, std::vector<std::uint8_t>& bytes) const = 0;
  // What `podium data verify` says of it that reading does not: what in it is otherwise than it was
  // indexed. Empty: nothing.
  virtual std::string problem(std::int64_t /*index*/) const { return ""; }
  // Of what there is, and of what it holds: copies have the same, wherever they lie. Contents that
  // are not known are read.
  struct Hash {
    std::uint64_t names = 0;  // of names and labels, in order
    std::uint64_t contents = 0;
  };
  virtual Hash hash(StopToken stop) const = 0;
  // The problems of those that do not decode as `crop` says in evaluation. Those of which it is
  // known that they do are not read.
  virtual std::vector<std::string> decoding_problems(const CropOptions& /*crop*/,
                                                     StopToken /*stop*/) const {
    return {};
  }
  // What decoding the largest takes, as far as contents are known.
  virtual std::int64_t decoding_bytes() const { return 0; }
  virtual std::int64_t memory_bytes() const = 0;
  // Labels are in [0, classes()).
  virtual std::int64_t classes() const { return std::ssize(class_names()); }
  // By label; none: classes have only numbers.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual const std::string& origin() const = 0;
};

// Whether a name ends as that of a picture: in .jpg, .jpeg or .png, in small letters or large.
bool is_picture_name(std::string_view name);

std::uint64_t hash_of_text(std::string_view text);

struct HeldOut {
  std::vector<std::uint32_t> train, test;  // increasing
};
// Divides records that have these labels: of each class, `share`, rounded, but one at least where
// there are two, are held out: those with the smallest hashes of their names, so that records that
// come later move few others. Throws UserError(kData), which names `origin`, where none can be.
HeldOut hold_out(const std::string& origin, std::span<const std::int32_t> labels, double share,
                 const std::function<std::uint64_t(std::uint32_t)>& name_hash);

// The memory of `count` numbers of records, and their share of an index of `all` records, which
// takes so many bytes.
std::int64_t part_bytes(std::int64_t count, std::int64_t all, std::int64_t index_bytes);

}  // namespace podium
