#include "data/pictures/shard_records.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "data/pictures/picture.h"
#include "data/pictures/tfrecord_shard.h"
#include "data/storage/indexed_file.h"

namespace podium {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kParts[] = {"train", "val", "valid", "validation", "test"};

}  // namespace

std::int32_t ShardRecords::label(std::int64_t i) const {
  return shards_->index->labels[static_cast<std::size_t>(example(i))] -
         static_cast<std::int32_t>(shards_->label_base);
}

std::string ShardRecords::name(std::int64_t i) const {
  const ShardIndex& index = *shards_->index;
  return cat(index.shards[index.shard_of(example(i))].path, ": ", index.name(example(i)));
}

// The record of TFRecord, without its checksum, which must be right.
void ShardRecords::read_record(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  const ShardIndex& index = *shards_->index;
  const ShardExample found = index.at(example(i));
  const ShardIndex::Shard& shard = index.shards[index.shard_of(example(i))];
  bytes.resize(static_cast<std::size_t>(found.record_size + kRecordFooter));
  read_indexed(shard.path, shard.state, found.record_offset, bytes);
  if (!is_sound_record(bytes))
    throw BadPicture(cat(name(i), " at byte ", found.record_offset,
                         ": the checksum of its data is wrong, so the file is damaged there: bring "
                         "the shard here again"));
  bytes.resize(static_cast<std::size_t>(found.record_size));
}

void ShardRecords::read(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  const ShardIndex& index = *shards_->index;
  const ShardExample found = index.at(example(i));
  if (index.format == ShardFormat::kTfrecord) {
    read_record(i, bytes);
    std::memmove(bytes.data(), bytes.data() + (found.offset - found.record_offset),
                 static_cast<std::size_t>(found.size));
    bytes.resize(static_cast<std::size_t>(found.size));
    return;
  }
  const ShardIndex::Shard& shard = index.shards[index.shard_of(example(i))];
  bytes.resize(static_cast<std::size_t>(found.size));
  read_indexed(shard.path, shard.state, found.offset, bytes);
}

std::string ShardRecords::problem(std::int64_t i) const {
  if (shards_->index->format != ShardFormat::kTfrecord) return "";
  std::vector<std::uint8_t> bytes;
  read_record(i, bytes);
  return record_problem(bytes, shards_->index->at(example(i)));
}

std::uint64_t ShardRecords::hash(StopToken stop) const {
  const ShardIndex& index = *shards_->index;
  std::uint64_t hash = hash_append(0, static_cast<std::uint64_t>(classes()));
  for (const std::string& name : class_names()) hash = hash_append(hash, hash_of_text(name));
  std::size_t last = index.shards.size();
  for (std::int64_t i = 0; i < count(); ++i) {
    if (i % 4096 == 0) stop.check();
    const std::size_t shard = index.shard_of(example(i));
    if (shard != last) {
      const ShardIndex::Shard& file = index.shards[shard];
      hash = hash_append(hash, hash_of_text(fs::path(file.path).filename().string()));
      hash = hash_append(hash, file.hash);
      last = shard;
    }
    const ShardExample found = index.at(example(i));
    hash = hash_append(hash, hash_of_text(found.name));
    hash = hash_append(hash, static_cast<std::uint64_t>(label(i)));
    hash = hash_append(hash, static_cast<std::uint64_t>(found.offset));
    hash = hash_append(hash, static_cast<std::uint64_t>(found.size));
  }
  return hash;
}

std::int64_t ShardRecords::memory_bytes() const {
  return part_bytes(count(), shards_->index->count(), shards_->index->memory_bytes());
}

std::string part_in_name(const std::string& path) {
  const auto is_part = [](const std::string& word) {
    return std::ranges::count(kParts, word) != 0;
  };
  std::string word;
  for (const char c : fs::path(path).filename().string() + ".") {
    if (const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); letter) {
      word += static_cast<char>(c | 0x20);
      continue;
    }
    if (is_part(word)) return word;
    word.clear();
  }
  const std::string folder = fs::path(path).parent_path().filename().string();
  return is_part(folder) ? folder : "";
}

ShardRecordIndex::ShardRecordIndex(ShardIndex index)
    : index_(std::make_shared<const ShardIndex>(std::move(index))) {
  for (const ShardIndex::Shard& shard : index_->shards)
    shard_parts_.push_back(part_in_name(shard.path));
  const auto has = [&](const char* part) { return std::ranges::count(shard_parts_, part) != 0; };
  for (const char* part : {"val", "valid", "validation", "test"}) {
    if (!has("train") || !has(part)) continue;
    train_part_ = "train", test_part_ = part;
    return;
  }
}

std::int64_t ShardRecordIndex::picture_bytes() const {
  return std::accumulate(index_->sizes.begin(), index_->sizes.end(), std::int64_t{0});
}

std::vector<RecordIndex::Count> ShardRecordIndex::counts() const {
  const auto unused = std::ranges::count_if(shard_parts_, [&](const std::string& part) {
    return !train_part_.empty() && part != train_part_ && part != test_part_;
  });
  return {
      {"shards", index_->shards.size() == 1 ? "shard" : "shards", std::ssize(index_->shards)},
      {"unused_shards",
       cat(unused == 1 ? "shard is left out: its name says"
                       : "shards are left out: their names say",
           " neither \"", train_part_, "\" nor \"", test_part_, "\""),
       unused},
      {"others",
       index_->others == 1 ? "other file in them is ignored" : "other files in them are ignored",
       index_->others}};
}

std::shared_ptr<const LabelledShards> ShardRecordIndex::labelled(
    const PictureOptions& options) const {
  auto shards = std::make_shared<LabelledShards>();
  shards->index = index_;
  shards->label_base = options.label_base;
  const std::int64_t most = *std::ranges::max_element(index_->labels);
  shards->classes = options.classes != 0 ? options.classes
                                         : std::max<std::int64_t>(most - options.label_base + 1, 1);
  const std::int64_t end = options.label_base + shards->classes;
  for (std::int64_t i = 0; i < index_->count(); ++i) {
    const std::int64_t label = index_->labels[static_cast<std::size_t>(i)];
    if (label >= options.label_base && label < end) continue;
    const ShardExample found = index_->at(i);
    const bool is_tar = index_->format == ShardFormat::kTar;
    throw UserError(
        cat(index_->shards[index_->shard_of(i)].path, ": at byte ",
            is_tar ? found.offset : found.record_offset, ": ", index_->name(i), " has the label ",
            label, ", and the recipe says that labels are from ", options.label_base, " to ",
            end - 1, " (`data.label_base` = ", options.label_base, ", ",
            options.classes != 0 ? cat("`data.classes` = ", options.classes)
                                 : std::string("the largest label"),
            "); change these, or mend the label"),
        ExitCode::kData);
  }
  if (!index_->class_texts.empty()) {
    for (std::int64_t label = options.label_base; label < end; ++label) {
      const auto text = index_->class_texts.find(static_cast<std::int32_t>(label));
      shards->class_names.push_back(
          text != index_->class_texts.end() ? text->second : cat(label - options.label_base));
    }
  }
  return shards;
}

std::shared_ptr<const Records> ShardRecordIndex::all(const PictureOptions& options) const {
  std::vector<std::uint32_t> examples(static_cast<std::size_t>(index_->count()));
  std::iota(examples.begin(), examples.end(), 0U);
  return std::make_shared<const ShardRecords>(labelled(options), std::move(examples),
                                              index_->pattern);
}

RecordParts ShardRecordIndex::parts(const PictureOptions& options) const {
  const auto shards = labelled(options);
  HeldOut examples;
  if (!train_part_.empty()) {
    for (std::size_t i = 0; i < index_->shards.size(); ++i) {
      PODIUM_REQUIRE(!shard_parts_[i].empty(), ExitCode::kData, index_->shards[i].path,
                     ": the names of other shards say \"", train_part_, "\" and \"", test_part_,
                     "\", and this one's says neither; rename it, or narrow the pattern");
      if (shard_parts_[i] != train_part_ && shard_parts_[i] != test_part_) continue;
      std::vector<std::uint32_t>& part =
          shard_parts_[i] == train_part_ ? examples.train : examples.test;
      for (std::int64_t k = index_->first_of(i); k < index_->shards[i].end; ++k)
        part.push_back(static_cast<std::uint32_t>(k));
    }
    for (const bool is_train : {true, false})
      PODIUM_REQUIRE(!(is_train ? examples.train : examples.test).empty(), ExitCode::kData,
                     index_->pattern, ": its shards called \"", is_train ? train_part_ : test_part_,
                     "\" have no pictures");
  } else {
    // A key is of its shard alone: others may have the same.
    examples = hold_out(index_->pattern, index_->labels, options.held_out, [&](std::uint32_t i) {
      const std::string& shard = index_->shards[index_->shard_of(i)].path;
      return hash_of_text(cat(fs::path(shard).filename().string(), "/", index_->name(i)));
    });
  }
  const auto origin = [&](const std::string& part, const char* divided) {
    return cat(index_->pattern, ", ", part.empty() ? divided : part);
  };
  return {std::make_shared<const ShardRecords>(shards, std::move(examples.train),
                                               origin(train_part_, "to train")),
          std::make_shared<const ShardRecords>(shards, std::move(examples.test),
                                               origin(test_part_, "held out"))};
}

}  // namespace podium
