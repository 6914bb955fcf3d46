#include "data/pictures/folder_records.h"

#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "data/storage/indexed_file.h"

namespace podium {

std::string FolderRecords::name(std::int64_t i) const {
  return cat(index_->root, "/", index_->name(static_cast<std::int64_t>(file(i))));
}

void FolderRecords::read(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  const FileState state{index_->sizes[file(i)], index_->times[file(i)]};
  bytes.resize(static_cast<std::size_t>(state.size));
  read_indexed(name(i), state, 0, bytes);
}

std::uint64_t FolderRecords::hash(StopToken stop) const {
  std::uint64_t hash = 0;
  for (const std::string& name : index_->class_names) hash = hash_append(hash, hash_of_text(name));
  for (std::int64_t i = 0; i < count(); ++i) {
    if (i % 4096 == 0) stop.check();
    const std::size_t at = file(i);
    hash = hash_append(hash, hash_of_text(index_->name(static_cast<std::int64_t>(at))));
    hash = hash_append(hash, static_cast<std::uint64_t>(index_->labels[at]));
    hash = hash_append(hash, index_->hashes[at]);
  }
  return hash;
}

std::int64_t FolderRecords::memory_bytes() const {
  return part_bytes(count(), index_->count(), index_->memory_bytes());
}

std::int64_t FolderRecordIndex::picture_bytes() const {
  return std::accumulate(index_->sizes.begin(), index_->sizes.end(), std::int64_t{0});
}

std::vector<RecordIndex::Count> FolderRecordIndex::counts() const {
  const auto count = [](const char* key, std::int64_t n, const char* one, const char* several) {
    return Count{key, cat(n == 1 ? one : several, " ignored"), n};
  };
  return {count("left_out", std::ssize(index_->left_out), "folder without pictures is",
                "folders without pictures are"),
          count("others", index_->others, "other file is", "other files are"),
          count("circles", index_->circles, "circular link is", "circular links are")};
}

std::shared_ptr<const Records> FolderRecordIndex::all(const PictureOptions&) const {
  std::vector<std::uint32_t> files(static_cast<std::size_t>(index_->count()));
  std::iota(files.begin(), files.end(), 0U);
  return std::make_shared<const FolderRecords>(index_, std::move(files), index_->root);
}

RecordParts FolderRecordIndex::parts(const PictureOptions& options) const {
  HeldOut files;
  if (!index_->train_part.empty()) {
    const std::string start = index_->train_part + "/";
    for (std::int64_t i = 0; i < index_->count(); ++i)
      (index_->name(i).starts_with(start) ? files.train : files.test)
          .push_back(static_cast<std::uint32_t>(i));
    for (const bool is_train : {true, false})
      PODIUM_REQUIRE(!(is_train ? files.train : files.test).empty(), ExitCode::kData, index_->root,
                     "/", is_train ? index_->train_part : index_->test_part, ": has no pictures");
  } else {
    files = hold_out(index_->root, index_->labels, options.held_out,
                     [&](std::uint32_t file) { return hash_of_text(index_->name(file)); });
  }
  const auto origin = [&](const std::string& part, const char* divided) {
    return part.empty() ? cat(index_->root, ", ", divided) : cat(index_->root, "/", part);
  };
  return {std::make_shared<const FolderRecords>(index_, std::move(files.train),
                                                origin(index_->train_part, "to train")),
          std::make_shared<const FolderRecords>(index_, std::move(files.test),
                                                origin(index_->test_part, "held out"))};
}

}  // namespace podium
