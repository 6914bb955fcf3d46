// The pictures of shards as records: a part of their index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/pictures/records.h"
#include "data/pictures/shard_index.h"

namespace podium {

// An index as the options of a recipe see it.
struct LabelledShards {
  std::shared_ptr<const ShardIndex> index;
  std::int64_t label_base = 0;  // what class 0 has in the shards
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // none, or one for each class
};

class ShardRecords final : public Records {
 public:
  // `examples` of the index, in increasing order.
  ShardRecords(std::shared_ptr<const LabelledShards> shards, std::vector<std::uint32_t> examples,
               std::string origin)
      : shards_(std::move(shards)), examples_(std::move(examples)), origin_(std::move(origin)) {}

  std::int64_t count() const override { return std::ssize(examples_); }
  std::int32_t label(std::int64_t i) const override;
  std::string name(std::int64_t i) const override;
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override;
  std::string problem(std::int64_t i) const override;
  std::uint64_t hash(StopToken stop) const override;
  std::int64_t memory_bytes() const override;
  std::int64_t classes() const override { return shards_->classes; }
  const std::vector<std::string>& class_names() const override { return shards_->class_names; }
  const std::string& origin() const override { return origin_; }

 private:
  std::int64_t example(std::int64_t i) const { return examples_[static_cast<std::size_t>(i)]; }
  void read_record(std::int64_t i, std::vector<std::uint8_t>& bytes) const;

  std::shared_ptr<const LabelledShards> shards_;
  std::vector<std::uint32_t> examples_;
  std::string origin_;
};

// Which part of a divided set a shard belongs to, by the words of its file's name or, where that
// has none of them, by its folder, which must be called so: "train", "val", "valid", "validation",
// "test"; empty: none.
std::string part_in_name(const std::string& path);

// The parts are those of the shards' names; where those name no two, records are held out
// (hold_out()).
class ShardRecordIndex final : public RecordIndex {
 public:
  explicit ShardRecordIndex(ShardIndex index);

  const std::string& origin() const override { return index_->pattern; }
  std::string file() const override { return shard_index_file(index_->format, index_->pattern); }
  std::int64_t memory_bytes() const override { return index_->memory_bytes(); }
  std::int64_t picture_bytes() const override;
  std::vector<Count> counts() const override;
  std::shared_ptr<const Records> all(const PictureOptions& options) const override;
  RecordParts parts(const PictureOptions& options) const override;

 private:
  std::shared_ptr<const LabelledShards> labelled(const PictureOptions& options) const;

  std::shared_ptr<const ShardIndex> index_;
  std::vector<std::string> shard_parts_;  // as part_in_name() says
  std::string train_part_, test_part_;    // empty: the names tell no two
};

}  // namespace podium
