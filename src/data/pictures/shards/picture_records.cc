#include "data/pictures/shards/picture_records.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "data/pictures/formats/picture.h"
#include "data/pictures/picture_source.h"
#include "data/pictures/shards/tfrecord_shard.h"

namespace podium {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTrainPart = "train",
                           kTestParts[] = {"val", "valid", "validation", "test"};

// The bytes of a picture as they lie in its file.
void read_picture(const PictureIndex& index, std::int64_t record,
                  std::vector<std::uint8_t>& bytes) {
  const ShardExample found = index.at(record);
  const std::size_t file = index.file_of(record);
  bytes.resize(static_cast<std::size_t>(found.size));
  read_indexed(index.path(file), index.state(file), found.offset, bytes);
}

std::uint16_t decoding_units(const std::vector<std::uint8_t>& bytes) {
  try {
    const std::int64_t units =
        (PictureReader(bytes, "").decoding_bytes() + kDecodingUnit - 1) / kDecodingUnit;
    return static_cast<std::uint16_t>(std::min<std::int64_t>(units, 65535));
  } catch (const BadPicture&) {
    return 0;  // it is not decoded
  }
}

}  // namespace

KnownPictures::KnownPictures(PictureIndex index, IndexOptions options)
    : index_(std::move(index)), options_(std::move(options)) {}

void KnownPictures::each(const char* what, std::int64_t count, StopToken stop,
                         const std::function<void(std::size_t)>& work) const {
  std::mutex mutex;
  std::int64_t done = 0;
  for_each_at_once(count, usable_cores(), [&](std::int64_t i) {
    stop.check();
    work(static_cast<std::size_t>(i));
    const std::lock_guard lock(mutex);
    ++done;
    if (options_.reading) options_.reading(what, done, count);
  });
}

void KnownPictures::know_contents(std::span<const std::uint32_t> records, StopToken stop) {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> files;
  for (const std::uint32_t record : records) {
    const std::size_t file = index_.file_of(record);
    if (index_.contents[file] == 0 && (files.empty() || files.back() != file))
      files.push_back(file);
  }
  if (files.empty()) return;
  each("files read", std::ssize(files), stop, [&](std::size_t i) {
    std::vector<std::uint8_t> bytes;
    const std::size_t file = files[i];
    std::uint64_t hash = 0;
    std::uint16_t decoding = 0;
    for (std::int64_t record = index_.first_of(file); record < index_.end_of(file); ++record) {
      stop.check();
      read_picture(index_, record, bytes);
      hash = hash_append(hash, hash_append(bytes.size(), hash_bytes(bytes)));
      decoding = std::max(decoding, decoding_units(bytes));
    }
    index_.contents[file] = std::max<std::uint64_t>(hash, 1);
    index_.decoding[file] = decoding;
  });
  keep_index(index_);
}

std::vector<std::string> KnownPictures::decode(
    std::span<const std::uint32_t> records, StopToken stop,
    const std::function<void(std::uint32_t record)>& decode_one) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> unknown;
  for (const std::uint32_t record : records)
    if (index_.decodes[record] == 0) unknown.push_back(record);
  if (unknown.empty()) return {};
  std::map<std::uint32_t, std::string> problems;
  std::mutex mutex;
  each("pictures to evaluate checked", std::ssize(unknown), stop, [&](std::size_t i) {
    try {
      decode_one(unknown[i]);
      index_.decodes[unknown[i]] = 1;
    } catch (const UserError& problem) {
      const std::lock_guard its(mutex);
      problems[unknown[i]] = problem.what();
    }
  });
  keep_index(index_);
  std::vector<std::string> texts;
  for (auto& [record, text] : problems) texts.push_back(std::move(text));
  return texts;
}

PictureRecords::PictureRecords(std::shared_ptr<KnownPictures> known, PictureLabels labels,
                               std::vector<std::uint32_t> records, std::string origin)
    : known_(std::move(known)),
      index_(known_->index()),
      labels_(std::move(labels)),
      records_(std::move(records)),
      origin_(std::move(origin)) {}

std::int32_t PictureRecords::label(std::int64_t i) const {
  return index_.labels[static_cast<std::size_t>(record(i))] -
         static_cast<std::int32_t>(labels_.base);
}

std::string PictureRecords::name(std::int64_t i) const {
  const std::string path = index_.path(index_.file_of(record(i)));
  return index_.is_folder() ? path : cat(path, ": ", index_.name(record(i)));
}

// The record of TFRecord, without its checksum, which must be right.
void PictureRecords::read_whole_record(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  const ShardExample found = index_.at(record(i));
  const std::size_t file = index_.file_of(record(i));
  bytes.resize(static_cast<std::size_t>(found.record_size + kRecordFooter));
  read_indexed(index_.path(file), index_.state(file), found.record_offset, bytes);
  if (!is_sound_record(bytes))
    throw BadPicture(cat(name(i), " at byte ", found.record_offset,
                         ": the checksum of its data is wrong, so the file is damaged there: bring "
                         "the shard here again"));
  bytes.resize(static_cast<std::size_t>(found.record_size));
}

void PictureRecords::read(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  if (index_.format != PictureFormat::kTfrecord) return read_picture(index_, record(i), bytes);
  const ShardExample found = index_.at(record(i));
  read_whole_record(i, bytes);
  std::memmove(bytes.data(), bytes.data() + (found.offset - found.record_offset),
               static_cast<std::size_t>(found.size));
  bytes.resize(static_cast<std::size_t>(found.size));
}

std::string PictureRecords::problem(std::int64_t i) const {
  if (index_.format != PictureFormat::kTfrecord) return "";
  std::vector<std::uint8_t> bytes;
  read_whole_record(i, bytes);
  return record_problem(bytes, index_.at(record(i)));
}

Records::Hash PictureRecords::hash(StopToken stop) const {
  known_->know_contents(records_, stop);
  Hash hash{.names = hash_append(0, static_cast<std::uint64_t>(classes()))};
  for (const std::string& name : class_names())
    hash.names = hash_append(hash.names, hash_of_text(name));
  std::size_t last = index_.files.size();
  for (std::int64_t i = 0; i < count(); ++i) {
    if (i % 4096 == 0) stop.check();
    const ShardExample found = index_.at(record(i));
    hash.names = hash_append(hash.names, hash_of_text(found.name));
    hash.names = hash_append(hash.names, static_cast<std::uint64_t>(label(i)));
    const std::size_t file = index_.file_of(record(i));
    if (file != std::exchange(last, file))
      hash.contents = hash_append(hash.contents, index_.contents[file]);
    // Which of the file's.
    hash.contents =
        hash_append(hash.contents, static_cast<std::uint64_t>(record(i) - index_.first_of(file)));
  }
  return hash;
}

std::vector<std::string> PictureRecords::decoding_problems(const CropOptions& crop,
                                                           StopToken stop) const {
  return known_->decode(records_, stop, [&](std::uint32_t record) {
    PicturePixels pixels;  // not kept: one may be huge
    thread_local std::vector<std::uint8_t> bytes;
    const auto i = std::ranges::lower_bound(records_, record) - records_.begin();
    read(i, bytes);
    try {
      PictureReader reader(bytes, name(i));
      reader.decode_all(reader.size().most_eighths(), pixels);
    } catch (const BadPicture&) {
      // It may be damaged only where evaluation does not look.
      std::vector<std::uint8_t> example(static_cast<std::size_t>(3 * crop.size * crop.size));
      make_example(bytes, name(i), crop, nullptr, example.data());
    }
  });
}

std::int64_t PictureRecords::decoding_bytes() const {
  std::int64_t most = 0;
  for (const std::uint32_t record : records_)
    most = std::max<std::int64_t>(most, index_.decoding[index_.file_of(record)]);
  return most * kDecodingUnit;
}

std::int64_t PictureRecords::memory_bytes() const {
  return part_bytes(count(), index_.count(), index_.memory_bytes());
}

std::string part_in_name(const std::string& path) {
  const auto is_part = [](const std::string& word) {
    return word == kTrainPart || std::ranges::count(kTestParts, word) != 0;
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

RecordIndex::RecordIndex(PictureIndex index, IndexOptions options)
    : known_(std::make_shared<KnownPictures>(std::move(index), std::move(options))),
      index_(known_->index()),
      train_part_(index_.train_part),
      test_part_(index_.test_part) {
  if (index_.is_folder()) return;
  for (std::size_t i = 0; i < index_.files.size(); ++i)
    file_parts_.push_back(part_in_name(index_.path(i)));
  const auto has = [&](std::string_view part) {
    return std::ranges::count(file_parts_, part) != 0;
  };
  for (const std::string_view part : kTestParts) {
    if (!has(kTrainPart) || !has(part)) continue;
    train_part_ = kTrainPart, test_part_ = part;
    return;
  }
}

std::int64_t RecordIndex::picture_bytes() const {
  if (index_.is_folder())
    return std::accumulate(index_.file_sizes.begin(), index_.file_sizes.end(), std::int64_t{0});
  return std::accumulate(index_.sizes.begin(), index_.sizes.end(), std::int64_t{0});
}

std::vector<RecordIndex::Count> RecordIndex::counts() const {
  const auto one_of = [](std::int64_t n, const char* one, const char* several) {
    return n == 1 ? one : several;
  };
  if (index_.is_folder()) {
    const std::int64_t left_out = std::ssize(index_.left_out);
    return {{"others", one_of(index_.others, "other file is ignored", "other files are ignored"),
             index_.others},
            {"circles",
             one_of(index_.circles, "circular link is ignored", "circular links are ignored"),
             index_.circles},
            {"left_out", one_of(left_out, "folder is left out", "folders are left out"), left_out}};
  }
  const auto unused = std::ranges::count_if(file_parts_, [&](const std::string& part) {
    return !train_part_.empty() && part != train_part_ && part != test_part_;
  });
  const std::int64_t shards = std::ssize(file_parts_);
  return {
      {"shards", one_of(shards, "shard", "shards"), shards},
      {"unused_shards",
       cat(one_of(unused, "shard is left out: its name says",
                  "shards are left out: their names say"),
           " neither \"", train_part_, "\" nor \"", test_part_, "\""),
       unused},
      {"others",
       one_of(index_.others, "other file in them is ignored", "other files in them are ignored"),
       index_.others}};
}

namespace {

// "a, b and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(names.size(), kShown);
  const std::string text =
      join_words(std::vector<std::string>(names.begin(), names.begin() + static_cast<long>(shown)));
  return names.size() == shown ? text : cat(text, " and ", names.size() - shown, " more");
}

}  // namespace

std::vector<std::string> RecordIndex::notes() const {
  std::vector<std::string> empty, beside, notes;
  for (const PictureIndex::LeftOut& folder : index_.left_out)
    (folder.has_no_pictures ? empty : beside).push_back(folder.name);
  const auto note = [&](const std::vector<std::string>& names, const std::string& what) {
    if (!names.empty())
      notes.push_back(
          cat(index_.place, ": ", count_text(std::ssize(names), "folder has", "folders have"), what,
              names.size() == 1 ? " and is no class: " : " and are no classes: ", some_of(names)));
  };
  note(empty, " no pictures");
  note(beside, cat(" no place beside the parts \"", train_part_, "\" and \"", test_part_, "\""));
  return notes;
}

PictureLabels RecordIndex::labels(const PictureOptions& options) const {
  if (index_.is_folder()) return {0, std::ssize(index_.class_names), index_.class_names};
  PictureLabels labels{.base = options.label_base};
  const std::int64_t most = *std::ranges::max_element(index_.labels);
  labels.classes = options.classes != 0 ? options.classes
                                        : std::max<std::int64_t>(most - options.label_base + 1, 1);
  const std::int64_t end = options.label_base + labels.classes;
  for (std::int64_t i = 0; i < index_.count(); ++i) {
    const std::int64_t label = index_.labels[static_cast<std::size_t>(i)];
    if (label >= options.label_base && label < end) continue;
    const ShardExample found = index_.at(i);
    const bool is_tar = index_.format == PictureFormat::kTar;
    throw UserError(
        cat(index_.path(index_.file_of(i)), ": at byte ",
            is_tar ? found.offset : found.record_offset, ": ", index_.name(i), " has the label ",
            label, ", and the recipe says that labels are from ", options.label_base, " to ",
            end - 1, " (`data.label_base` = ", options.label_base, ", ",
            options.classes != 0 ? cat("`data.classes` = ", options.classes)
                                 : std::string("the largest label"),
            "); change these, or mend the label"),
        ExitCode::kData);
  }
  if (index_.class_texts.empty()) return labels;
  for (std::int64_t label = options.label_base; label < end; ++label) {
    const auto text = index_.class_texts.find(static_cast<std::int32_t>(label));
    labels.names.push_back(text != index_.class_texts.end() ? text->second
                                                            : cat(label - options.label_base));
  }
  return labels;
}

std::shared_ptr<const Records> RecordIndex::all(const PictureOptions& options) const {
  std::vector<std::uint32_t> records(static_cast<std::size_t>(index_.count()));
  std::iota(records.begin(), records.end(), 0U);
  return std::make_shared<const PictureRecords>(known_, labels(options), std::move(records),
                                                index_.place);
}

RecordParts RecordIndex::parts(const PictureOptions& options) const {
  const PictureLabels its_labels = labels(options);
  HeldOut records;
  if (!train_part_.empty()) {
    const std::string start = train_part_ + "/";
    for (std::size_t i = 0; i < index_.files.size(); ++i) {
      if (!index_.is_folder())
        PODIUM_REQUIRE(!file_parts_[i].empty(), ExitCode::kData, index_.path(i),
                       ": the names of other shards say \"", train_part_, "\" and \"", test_part_,
                       "\", and this one's says neither; rename it, or narrow the pattern");
      const bool is_train =
          index_.is_folder() ? index_.files[i].starts_with(start) : file_parts_[i] == train_part_;
      if (!is_train && !index_.is_folder() && file_parts_[i] != test_part_) continue;
      std::vector<std::uint32_t>& part = is_train ? records.train : records.test;
      for (std::int64_t k = index_.first_of(i); k < index_.end_of(i); ++k)
        part.push_back(static_cast<std::uint32_t>(k));
    }
    for (const bool is_train : {true, false}) {
      const std::string& part = is_train ? train_part_ : test_part_;
      PODIUM_REQUIRE(
          !(is_train ? records.train : records.test).empty(), ExitCode::kData, index_.place,
          index_.is_folder() ? cat("/", part, ": has no pictures")
                             : cat(": its shards called \"", part, "\" have no pictures"));
    }
  } else {
    // The key of a record in a shard is of its shard alone: others may have the same.
    records = hold_out(index_.place, index_.labels, options.held_out, [&](std::uint32_t i) {
      if (index_.is_folder()) return hash_of_text(index_.files[i]);
      const std::string shard = index_.path(index_.file_of(i));
      return hash_of_text(cat(fs::path(shard).filename().string(), "/", index_.name(i)));
    });
  }
  const auto make = [&](std::vector<std::uint32_t> some, const std::string& part,
                        const char* divided) {
    const std::string origin = part.empty()         ? cat(index_.place, ", ", divided)
                               : index_.is_folder() ? cat(index_.place, "/", part)
                                                    : cat(index_.place, ", ", part);
    return std::make_shared<const PictureRecords>(known_, its_labels, std::move(some), origin);
  };
  return {make(std::move(records.train), train_part_, "to train"),
          make(std::move(records.test), test_part_, "held out")};
}

std::vector<std::string> notes_of(const RecordParts& parts) {
  const auto classes = static_cast<std::size_t>(parts.train->classes());
  std::vector<std::int64_t> train(classes), test(classes);
  for (std::int64_t i = 0; i < parts.train->count(); ++i)
    ++train[static_cast<std::size_t>(parts.train->label(i))];
  for (std::int64_t i = 0; i < parts.test->count(); ++i)
    ++test[static_cast<std::size_t>(parts.test->label(i))];
  std::vector<std::string> single, unseen, notes;
  for (std::size_t i = 0; i < classes; ++i) {
    const std::vector<std::string>& names = parts.train->class_names();
    const std::string name = names.empty() ? cat(i) : names[i];
    if (train[i] + test[i] == 1) {
      single.push_back(name);
    } else if (test[i] == 0 && train[i] != 0) {
      unseen.push_back(name);
    }
  }
  const auto note = [&](const std::vector<std::string>& names, const char* what) {
    if (!names.empty())
      notes.push_back(cat(parts.train->origin(), ": ",
                          count_text(std::ssize(names), "class has", "classes have"), what,
                          some_of(names)));
  };
  note(single, " one picture alone, so nothing can be both learned and evaluated of it: ");
  note(unseen, " no picture that is evaluated: ");
  return notes;
}

}  // namespace podium
