#include "data/pictures/shard_index.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/words.h"
#include "data/pictures/image_source.h"
#include "data/pictures/shard_pattern.h"
#include "data/pictures/tar_shard.h"
#include "data/pictures/tfrecord_shard.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLineOfShards = "podium shards 2\n";
constexpr std::int64_t kMostInShards = std::int64_t{1} << 31;

constexpr const char* word_of(ShardFormat format) {
  return format == ShardFormat::kTar ? "tar" : "tfrecord";
}

class Indexing {
 public:
  Indexing(ShardIndex& index, const IndexOptions& options) : index_(index), options_(options) {}

  void shard(const std::string& path) {
    options_.stop.check();
    ShardFile file(path);
    const auto visit = [&](const ShardExample& example) { add(example, file); };
    if (index_.format == ShardFormat::kTar) {
      index_.others += scan_tar(file, visit);
    } else {
      scan_tfrecord(file, visit);
    }
    index_.shards.push_back({path, file.state(), index_.count()});
  }

 private:
  void add(const ShardExample& example, const ShardFile& file) {
    if (index_.count() % 1024 == 0) {
      options_.stop.check();
      if (options_.progress) options_.progress(index_.count());
    }
    const auto label = static_cast<std::int32_t>(example.label);
    index_.labels.push_back(label);
    index_.offsets.push_back(example.offset);
    index_.sizes.push_back(static_cast<std::uint32_t>(example.size));
    PODIUM_REQUIRE(index_.count() <= kMostInShards, ExitCode::kData, index_.pattern, ": more than ",
                   kMostInShards, " pictures");
    if (index_.format == ShardFormat::kTar) {
      index_.names += example.name;
      index_.name_ends.push_back(index_.names.size());
    } else {
      index_.leads.push_back(static_cast<std::uint32_t>(example.offset - example.record_offset));
      index_.record_sizes.push_back(static_cast<std::uint32_t>(example.record_size));
    }
    if (example.class_text.empty()) return;
    const auto [known, is_new] = index_.class_texts.emplace(label, example.class_text);
    if (!is_new && known->second != example.class_text)
      file.fail(example.record_offset,
                cat("the class ", label, " is called \"", example.class_text,
                    "\" here (image/class/text) and \"", known->second,
                    "\" before; write the shards with one name for a class"));
  }

  ShardIndex& index_;
  const IndexOptions& options_;
};

// Whether the files are those that were indexed.
bool is_current(const ShardIndex& index, const std::vector<std::string>& paths) {
  return std::ranges::equal(
      index.shards, paths, [](const ShardIndex::Shard& shard, const std::string& path) {
        return shard.path == path && state_of(path) == std::optional(shard.state);
      });
}

std::string absolute(const std::string& pattern) {
  std::string path = fs::absolute(pattern).lexically_normal().string();
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::int64_t ShardIndex::memory_bytes() const {
  constexpr std::int64_t kEach =
      sizeof(std::int32_t) + sizeof(std::int64_t) + sizeof(std::uint32_t);
  const std::int64_t more =
      format == ShardFormat::kTar ? sizeof(std::uint64_t) : 2 * sizeof(std::uint32_t);
  return count() * (kEach + more) + std::ssize(names);
}

std::size_t ShardIndex::shard_of(std::int64_t example) const {
  PODIUM_CHECK(example >= 0 && example < count(), example);
  const auto shard = std::ranges::upper_bound(shards, example, {}, &Shard::end);
  return static_cast<std::size_t>(shard - shards.begin());
}

std::string ShardIndex::name(std::int64_t example) const {
  if (format == ShardFormat::kTfrecord)
    return cat("record ", example - first_of(shard_of(example)));
  return std::string(at(example).name);
}

ShardExample ShardIndex::at(std::int64_t example) const {
  const auto i = static_cast<std::size_t>(example);
  ShardExample found{
      .name = {}, .label = labels[i], .class_text = {}, .offset = offsets[i], .size = sizes[i]};
  if (format == ShardFormat::kTar) {
    const std::uint64_t begin = i == 0 ? 0 : name_ends[i - 1];
    found.name = std::string_view(names).substr(begin, name_ends[i] - begin);
  } else {
    found.record_offset = found.offset - leads[i];
    found.record_size = record_sizes[i];
  }
  return found;
}

std::string shard_index_text(const ShardIndex& index) {
  std::string text(kFirstLineOfShards);
  const auto line = [&](const std::string& numbers, std::string_view name = {}) {
    text += numbers;
    append_escaped(text, name);
    text += '\n';
  };
  line(word_of(index.format));
  line("", index.pattern);
  line(cat(index.shards.size(), " ", index.class_texts.size(), " ", index.count(), " ",
           index.others));
  for (std::size_t i = 0; i < index.shards.size(); ++i) {
    const ShardIndex::Shard& shard = index.shards[i];
    line(cat(shard.state.size, " ", shard.state.time, " ", shard.end - index.first_of(i), " ",
             hash_text(shard.hash), " "),
         shard.path);
  }
  for (const auto& [label, name] : index.class_texts) line(cat(label, " "), name);
  for (std::int64_t i = 0; i < index.count(); ++i) {
    const ShardExample example = index.at(i);
    const std::string place = cat(example.label, " ", example.offset, " ", example.size, " ");
    if (index.format == ShardFormat::kTar) {
      line(place, example.name);
    } else {
      line(cat(place, example.record_offset, " ", example.record_size));
    }
  }
  return with_checksum(std::move(text));
}

ShardIndex parse_shard_index(std::string_view text, const std::string& name) {
  IndexLines lines(text, name, kFirstLineOfShards);
  ShardIndex index;
  const std::string_view format = lines.line();
  lines.require(format == "tar" || format == "tfrecord", "a format that is not known");
  if (format == "tfrecord") index.format = ShardFormat::kTfrecord;
  index.pattern = lines.escaped(lines.line());
  std::string_view counts = lines.line();
  const std::int64_t shards = lines.number(counts), texts = lines.number(counts),
                     examples = lines.number(counts);
  index.others = lines.number(counts);
  for (const std::int64_t n : {shards, texts, examples}) lines.require_count(n);
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < shards; ++i) {
    std::string_view line = lines.line();
    FileState state;
    state.size = lines.number(line);
    state.time = lines.number(line);
    const std::int64_t own = lines.number(line);
    lines.require(own >= 0 && own <= examples - end, "the shards have other examples");
    end += own;
    const std::uint64_t hash = lines.hash(line);
    index.shards.push_back({lines.escaped(line), state, end, hash});
  }
  lines.require(end == examples, "the shards have other examples");
  for (std::int64_t i = 0; i < texts; ++i) {
    std::string_view line = lines.line();
    const std::int64_t label = lines.number(line);
    lines.require(label >= 0 && label < kMostClasses, "a label is not a class");
    const bool is_new =
        index.class_texts.emplace(static_cast<std::int32_t>(label), lines.escaped(line)).second;
    lines.require(is_new, "a class has two names");
  }
  std::size_t shard = 0;
  for (std::int64_t i = 0; i < examples; ++i) {
    while (index.shards[shard].end <= i) ++shard;
    const std::int64_t all = index.shards[shard].state.size;
    const auto inside = [&](std::int64_t begin, std::int64_t size, std::int64_t from,
                            std::int64_t to) {
      lines.require(begin >= from && size >= 0 && begin <= to && size <= to - begin,
                    "a picture lies outside of its shard");
    };
    std::string_view line = lines.line();
    const std::int64_t label = lines.number(line);
    lines.require(label >= 0 && label < kMostClasses, "a label is not a class");
    const std::int64_t offset = lines.number(line), size = lines.number(line);
    inside(offset, size, 0, all);
    lines.require(size <= kMostPictureBytes, "a picture is too large");
    index.labels.push_back(static_cast<std::int32_t>(label));
    index.offsets.push_back(offset);
    index.sizes.push_back(static_cast<std::uint32_t>(size));
    if (index.format == ShardFormat::kTar) {
      index.names += lines.escaped(line);
      index.name_ends.push_back(index.names.size());
      continue;
    }
    const std::int64_t record = lines.number(line), record_size = lines.number(line);
    inside(record, record_size, 0, all - kRecordFooter);
    inside(offset, size, record, record + record_size);
    lines.require(record_size <= kMostPictureBytes, "a record is too large");
    index.leads.push_back(static_cast<std::uint32_t>(offset - record));
    index.record_sizes.push_back(static_cast<std::uint32_t>(record_size));
  }
  lines.require_end();
  return index;
}

std::string shard_index_file(ShardFormat format, const std::string& pattern) {
  return index_file_of(cat(word_of(format), ":", absolute(pattern)));
}

ShardIndex index_shards(ShardFormat format, const std::string& pattern, const IndexOptions& options,
                        bool* from_cache) {
  const std::string whole = absolute(pattern);
  const std::vector<std::string> paths = find_shards(format, whole);
  const std::string file = shard_index_file(format, pattern);
  if (from_cache != nullptr) *from_cache = true;
  if (const auto text = options.fresh || file.empty() ? std::nullopt : read_cache_file(file)) {
    try {
      ShardIndex index = parse_shard_index(*text, file);
      if (index.format == format && index.pattern == whole && is_current(index, paths))
        return index;
    } catch (const UserError& problem) {
      log(LogLevel::kInfo, problem.what());
    }
  }
  if (from_cache != nullptr) *from_cache = false;
  ShardIndex index;
  index.format = format;
  index.pattern = whole;
  Indexing indexing(index, options);
  for (const std::string& path : paths) indexing.shard(path);
  PODIUM_REQUIRE(index.count() > 0, ExitCode::kData, whole, ": its ",
                 count_text(std::ssize(index.shards), "shard has", "shards have"), " no pictures",
                 format == ShardFormat::kTar
                     ? "; these are files NAME.jpg, .jpeg or .png beside NAME.cls"
                     : "");
  for_each_file(std::ssize(index.shards), [&](std::int64_t i) {
    ShardIndex::Shard& shard = index.shards[static_cast<std::size_t>(i)];
    shard.hash = content_hash(shard.path, shard.state, options.stop);
  });
  if (options.progress) options.progress(index.count());
  keep_index_text(file, shard_index_text(index));
  return index;
}

}  // namespace podium
