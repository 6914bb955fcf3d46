// The pictures of an index as records: all, or a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/pictures/picture_options.h"
#include "data/pictures/shards/picture_index.h"
#include "data/pictures/shards/records.h"

namespace podium {

// An index to which is added what reading its pictures tells; safe to share between threads.
class KnownPictures {
 public:
  KnownPictures(PictureIndex index, IndexOptions options);

  const PictureIndex& index() const { return index_; }
  // Hashes the contents of the files that have these records, side by side, where that was not done
  // before. Throws UserError(kData) for a file that cannot be read.
  void know_contents(std::span<const std::uint32_t> records, StopToken stop);
  // Notes which of these decode. Those of which this is known are not asked.
  std::vector<std::string> decode(std::span<const std::uint32_t> records, StopToken stop,
                                  const std::function<void(std::uint32_t record)>& decode_one);

 private:
  void each(const char* what, std::int64_t count, StopToken stop,
            const std::function<void(std::size_t)>& work) const;

  PictureIndex index_;
  IndexOptions options_;
  std::mutex mutex_;
};

// How the options of a recipe see the labels.
struct PictureLabels {
  std::int64_t base = 0;  // what class 0 has in shards
  std::int64_t classes = 0;
  std::vector<std::string> names;  // none, or one for each class
};

class PictureRecords final : public Records {
 public:
  // `records` of the index, in increasing order.
  PictureRecords(std::shared_ptr<KnownPictures> known, PictureLabels labels,
                 std::vector<std::uint32_t> records, std::string origin);

  std::int64_t count() const override { return std::ssize(records_); }
  std::int32_t label(std::int64_t i) const override;
  std::string name(std::int64_t i) const override;
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override;
  std::string problem(std::int64_t i) const override;
  Hash hash(StopToken stop) const override;
  std::vector<std::string> decoding_problems(const CropOptions& crop,
                                             StopToken stop) const override;
  std::int64_t decoding_bytes() const override;
  std::int64_t memory_bytes() const override;
  std::int64_t classes() const override { return labels_.classes; }
  const std::vector<std::string>& class_names() const override { return labels_.names; }
  const std::string& origin() const override { return origin_; }

 private:
  std::int64_t record(std::int64_t i) const { return records_[static_cast<std::size_t>(i)]; }
  void read_whole_record(std::int64_t i, std::vector<std::uint8_t>& bytes) const;

  std::shared_ptr<KnownPictures> known_;
  const PictureIndex& index_;
  PictureLabels labels_;
  std::vector<std::uint32_t> records_;
  std::string origin_;
};

struct RecordParts {
  std::shared_ptr<const Records> train, test;
};

// Which part of a divided set a shard belongs to, by the words of its file's name or, where that
// has none of them, by its folder, which must be called so: "train", "val", "valid", "validation",
// "test"; empty: none.
std::string part_in_name(const std::string& path);

// What is known of pictures in files before any is read. Two parts are those of the folder, or
// those that the names of shards tell; where there are none, records are held out (hold_out()).
class RecordIndex {
 public:
  explicit RecordIndex(PictureIndex index, IndexOptions options = {});

  // The folder or the pattern of shards, for people.
  const std::string& origin() const { return index_.place; }
  // Where the index is kept; empty: nowhere.
  std::string file() const { return index_file_of(index_.format, index_.place); }
  std::int64_t memory_bytes() const { return index_.memory_bytes(); }
  // The sum of the sizes of all pictures.
  std::int64_t picture_bytes() const;
  // Of what lies there besides pictures.
  struct Count {
    std::string key, text;  // "others", "other files are ignored"
    std::int64_t count = 0;
  };
  std::vector<Count> counts() const;
  // What people should hear before they train: folders that are left out.
  std::vector<std::string> notes() const;
  // All, and as a recipe divides them. Throws UserError(kData) where they do not fit the options.
  std::shared_ptr<const Records> all(const PictureOptions& options) const;
  RecordParts parts(const PictureOptions& options) const;

 private:
  PictureLabels labels(const PictureOptions& options) const;

  std::shared_ptr<KnownPictures> known_;
  const PictureIndex& index_;
  std::vector<std::string> file_parts_;  // of shards, as part_in_name() says
  std::string train_part_, test_part_;   // empty: there are no two
};

// What people should hear of two parts before they train: classes with one picture, or none that is
// evaluated.
std::vector<std::string> notes_of(const RecordParts& parts);

}  // namespace podium
