#include "data/pictures/shards/tfrecord_shard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/pictures/shards/example.pb.h"
#include "data/storage/record_file.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

examples::Example example_of(const std::string& picture, std::int64_t label,
                             const std::string& text = "") {
  examples::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["image/encoded"].mutable_bytes_list()->add_value(picture);
  features["image/class/label"].mutable_int64_list()->add_value(label);
  if (!text.empty()) features["image/class/text"].mutable_bytes_list()->add_value(text);
  return example;
}

std::string shard_of(const std::vector<std::string>& records) {
  std::string shard;
  for (const std::string& record : records) append_record(shard, record);
  return shard;
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

struct Found {
  std::string picture, text;
  std::int64_t label = 0;
  bool operator==(const Found&) const = default;
};

std::vector<Found> examples_of(const std::string& shard) {
  ShardFile file(bytes_of(shard), "x.tfrecord");
  std::vector<Found> found;
  scan_tfrecord(file, [&](const ShardExample& example) {
    const auto part = [&](std::int64_t offset, std::int64_t size) {
      return shard.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    };
    found.push_back(
        {part(example.offset, example.size), std::string(example.class_text), example.label});
    EXPECT_TRUE(is_sound_record(
        bytes_of(part(example.record_offset, example.record_size + kRecordFooter))));
    EXPECT_EQ(record_problem(bytes_of(part(example.record_offset, example.record_size)), example),
              "");
  });
  return found;
}

std::string tfrecord_error(const std::string& shard) {
  return data_error([&] { examples_of(shard); });
}
std::string tfrecord_error(const examples::Example& example) {
  return tfrecord_error(
      shard_of({example_of("p", 1).SerializeAsString(), example.SerializeAsString()}));
}

TEST(TfrecordShard, has_pictures_and_labels_beside_any_other_features) {
  examples::Example rich = example_of(std::string(100000, 'p'), 1000, "tench, Tinca tinca");
  auto& features = *rich.mutable_features()->mutable_feature();
  features["image/height"].mutable_int64_list()->add_value(500);
  features["image/object/bbox/xmin"].mutable_float_list()->add_value(0.5F);
  features["image/filename"].mutable_bytes_list()->add_value(std::string(9000, 'f'));
  features["empty"];
  EXPECT_EQ(
      examples_of(shard_of({example_of("small", 0).SerializeAsString(), rich.SerializeAsString(),
                            example_of("", 7, "Ä\n").SerializeAsString()})),
      (std::vector<Found>{{"small", "", 0},
                          {std::string(100000, 'p'), "tench, Tinca tinca", 1000},
                          {"", "Ä\n", 7}}));
  EXPECT_TRUE(examples_of("").empty());
}

// Length-delimited field `number`.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST(TfrecordShard, has_fields_in_every_order_and_numbers_that_are_not_packed) {
  const auto entry = [](const std::string& name, const std::string& feature, bool name_first) {
    const std::string key = field(1, name), value = field(2, feature);
    return field(1, name_first ? key + value : value + key);
  };
  const std::string picture = entry("image/encoded", field(1, field(1, "bytes")), false);
  const std::string label = entry("image/class/label", field(3, "\x08\x05"), false);
  const std::string other = field(9, "of no meaning");
  EXPECT_EQ(examples_of(shard_of({other + field(1, picture + other + label)})),
            (std::vector<Found>{{"bytes", "", 5}}));
  // Two parts of a message are joined.
  EXPECT_EQ(examples_of(shard_of({field(1, label) + field(1, picture)})),
            (std::vector<Found>{{"bytes", "", 5}}));
  EXPECT_CONTAINS(tfrecord_error(shard_of({field(1, picture + label + picture)})),
                  "has two features image/encoded");
}

TEST(TfrecordShard, a_file_that_is_cut_short_is_refused_wherever_it_was_cut) {
  const std::string record = shard_of({example_of("picture", 1).SerializeAsString()});
  for (std::size_t size = 1; size < record.size(); ++size) {
    const std::string error = tfrecord_error(record + record.substr(0, size));
    EXPECT_CONTAINS(error, cat("x.tfrecord: at byte ", record.size(), ": record 1 "));
    EXPECT_CONTAINS(error, "cut short; write the shard again");
  }
}

TEST(TfrecordShard, checksums_find_what_has_changed) {
  const std::string shard = shard_of({example_of("picture", 1).SerializeAsString()});
  for (std::size_t i = 0; i < 12; ++i) {
    std::string damaged = shard;
    damaged[i] ^= 4;
    EXPECT_CONTAINS(tfrecord_error(damaged),
                    "at byte 0: record 0 has a wrong checksum of its length");
  }
  for (std::size_t i = 12; i < shard.size(); ++i) {
    std::string damaged = shard;
    damaged[i] ^= 4;
    EXPECT_FALSE(is_sound_record(bytes_of(std::string_view(damaged).substr(12))));
  }
  EXPECT_CONTAINS(tfrecord_error("\x1f\x8b" + shard), "at byte 0: it is packed by gzip");
  EXPECT_CONTAINS(tfrecord_error(std::string(100, 'x')), "this is no TFRecord file");
}

TEST(TfrecordShard, records_that_are_no_labelled_pictures_are_refused_with_place_and_remedy) {
  const auto with = [](const auto& change) {
    examples::Example example = example_of("p", 1);
    change(*example.mutable_features()->mutable_feature());
    return tfrecord_error(example);
  };
  const std::string no_label = with([](auto& features) { features.erase("image/class/label"); });
  EXPECT_CONTAINS(no_label, "record 1 has no feature image/class/label, an int64");
  EXPECT_CONTAINS(no_label, "it has image/encoded: write the shard with it");
  EXPECT_TRUE(no_label.starts_with("x.tfrecord: at byte ")) << no_label;
  EXPECT_CONTAINS(with([](auto& features) { features.clear(); }), "it has none");
  EXPECT_CONTAINS(with([](auto& features) {
                    features["image/encoded"].mutable_bytes_list()->add_value("another");
                  }),
                  "has 2 values of its feature image/encoded");
  EXPECT_CONTAINS(with([](auto& features) {
                    features["image/class/label"].mutable_bytes_list()->add_value("cat");
                  }),
                  "has 0 values of its feature image/class/label, an int64");
  EXPECT_CONTAINS(with([](auto& features) {
                    features["image/class/label"].mutable_int64_list()->add_value(2);
                  }),
                  "has 2 values of its feature image/class/label");
  EXPECT_CONTAINS(tfrecord_error(example_of("p", -1)),
                  "has the label -1; labels are from 0 to 1048575");
  EXPECT_CONTAINS(tfrecord_error(example_of("p", 1 << 20)), "has the label 1048576");
  EXPECT_CONTAINS(tfrecord_error(shard_of({"\x0a\x7f..."})), "record 0 is no tf.train.Example");
  EXPECT_CONTAINS(tfrecord_error(shard_of({"{\"image\":1}"})), "is no tf.train.Example");
}

TEST(TfrecordShard, verifying_finds_what_lies_elsewhere_than_it_was_found) {
  const std::string data = example_of("picture", 1).SerializeAsString();
  const std::string shard = shard_of({data});
  ShardFile file(bytes_of(shard), "x.tfrecord");
  ShardExample found;
  scan_tfrecord(file, [&](const ShardExample& example) { found = example; });
  ShardExample other = found;
  other.label = 2;
  EXPECT_EQ(record_problem(bytes_of(data), other), "its label is another");
  other = found;
  ++other.offset;
  EXPECT_EQ(record_problem(bytes_of(data), other), "its picture lies elsewhere");
  EXPECT_EQ(record_problem(bytes_of("\x0a\x7f..."), found), "protobuf cannot read it");
}

}  // namespace
}  // namespace podium
