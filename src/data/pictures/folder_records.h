// The pictures of a folder as records: a part of its index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/pictures/folder_index.h"
#include "data/pictures/records.h"

namespace podium {

class FolderRecords final : public Records {
 public:
  // `files` of the index, in increasing order.
  FolderRecords(std::shared_ptr<const FolderIndex> index, std::vector<std::uint32_t> files,
                std::string origin)
      : index_(std::move(index)), files_(std::move(files)), origin_(std::move(origin)) {}

  std::int64_t count() const override { return std::ssize(files_); }
  std::int32_t label(std::int64_t i) const override { return index_->labels[file(i)]; }
  std::string name(std::int64_t i) const override;
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override;
  std::uint64_t hash(StopToken stop) const override;
  std::int64_t memory_bytes() const override;
  const std::vector<std::string>& class_names() const override { return index_->class_names; }
  const std::string& origin() const override { return origin_; }

 private:
  std::size_t file(std::int64_t i) const { return files_[static_cast<std::size_t>(i)]; }

  std::shared_ptr<const FolderIndex> index_;
  std::vector<std::uint32_t> files_;
  std::string origin_;
};

// The parts are those of the folder; one that has none is divided (hold_out()).
class FolderRecordIndex final : public RecordIndex {
 public:
  explicit FolderRecordIndex(FolderIndex index)
      : index_(std::make_shared<const FolderIndex>(std::move(index))) {}

  const std::string& origin() const override { return index_->root; }
  std::string file() const override { return index_file_of(index_->root); }
  std::int64_t memory_bytes() const override { return index_->memory_bytes(); }
  std::int64_t picture_bytes() const override;
  std::vector<Count> counts() const override;
  std::vector<std::string> left_out() const override { return index_->left_out; }
  std::shared_ptr<const Records> all(const PictureOptions& options) const override;
  RecordParts parts(const PictureOptions& options) const override;

 private:
  std::shared_ptr<const FolderIndex> index_;
};

}  // namespace podium
