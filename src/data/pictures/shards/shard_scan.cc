#include "base/error.h"
#include "base/words.h"
#include "data/pictures/shards/picture_scan.h"
#include "data/pictures/shards/tar_shard.h"
#include "data/pictures/shards/tfrecord_shard.h"

namespace podium {
namespace {

constexpr std::int64_t kMostInShards = std::int64_t{1} << 31;

class ShardScan {
 public:
  ShardScan(PictureIndex& index, const IndexOptions& options) : index_(index), options_(options) {}

  void shard(const std::string& path) {
    options_.stop.check();
    ShardFile file(path);
    const auto visit = [&](const ShardExample& example) { add(example, file); };
    if (index_.format == PictureFormat::kTar) {
      index_.others += scan_tar(file, visit);
    } else {
      scan_tfrecord(file, visit);
    }
    index_.add_file(path, file.state());
    index_.ends.push_back(index_.count());
  }

 private:
  void add(const ShardExample& example, const ShardFile& file) {
    if (index_.count() % 1024 == 0) {
      options_.stop.check();
      if (options_.progress) options_.progress(index_.count());
    }
    const auto label = static_cast<std::int32_t>(example.label);
    index_.labels.push_back(label);
    index_.decodes.push_back(0);
    index_.offsets.push_back(example.offset);
    index_.sizes.push_back(static_cast<std::uint32_t>(example.size));
    PODIUM_REQUIRE(index_.count() <= kMostInShards, ExitCode::kData, index_.place, ": more than ",
                   kMostInShards, " pictures");
    if (index_.format == PictureFormat::kTar) {
      index_.names.add(example.name);
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

  PictureIndex& index_;
  const IndexOptions& options_;
};

}  // namespace

void scan_shards(PictureIndex& index, const std::vector<std::string>& paths,
                 const IndexOptions& options) {
  ShardScan scan(index, options);
  for (const std::string& path : paths) scan.shard(path);
  PODIUM_REQUIRE(index.count() > 0, ExitCode::kData, index.place, ": its ",
                 count_text(std::ssize(paths), "shard has", "shards have"), " no pictures",
                 index.format == PictureFormat::kTar
                     ? "; these are files NAME.jpg, .jpeg or .png beside NAME.cls"
                     : "");
  if (options.progress) options.progress(index.count());
}

}  // namespace podium
