#include "data/pictures/shards/tfrecord_shard.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/words.h"
#include "data/pictures/image_source.h"
#include "data/pictures/shards/example.pb.h"
#include "data/storage/record_file.h"

namespace podium {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::int64_t kHeader = 8 + 4;
constexpr std::int64_t kMostRecord = std::numeric_limits<std::int32_t>::max();
constexpr int kMostNameBytes = 4096;
constexpr const char* kRecordRemedy = "; write the shard again, or leave it out";
constexpr const char* kImage = "image/encoded";
constexpr const char* kLabel = "image/class/label";
constexpr const char* kText = "image/class/text";

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The bytes of a record for protobuf's reader of fields. What it passes over is not read.
class RecordStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  RecordStream(ShardFile& file, std::int64_t offset, std::int64_t size)
      : file_(file), offset_(offset), size_(size) {}

  bool Next(const void** data, int* size) override {
    const std::int64_t some = std::min(size_ - place_, kAtOnce);
    if (some == 0) return false;
    *data = file_.at(offset_ + place_, some).data();
    *size = static_cast<int>(some);
    place_ += some;
    return true;
  }
  void BackUp(int count) override { place_ -= count; }
  bool Skip(int count) override {
    const std::int64_t some = std::min<std::int64_t>(count, size_ - place_);
    place_ += some;
    return some == count;
  }
  std::int64_t ByteCount() const override { return place_; }

 private:
  static constexpr std::int64_t kAtOnce = 1024;
  ShardFile& file_;
  std::int64_t offset_, size_, place_ = 0;
};

// What an Example holds, of which only the short parts are read.
struct Feature {
  int bytes = 0, numbers = 0;  // how many values
  std::int64_t number = 0;     // the first one
  std::int64_t offset = 0, size = 0;
  std::string text;  // of the first bytes, if they are as short as a name
};

// Reads the fields of one Example. Each function returns false where the bytes are none.
class ExampleFields {
 public:
  ExampleFields(ShardFile& file, std::int64_t offset, std::int64_t size)
      : offset_(offset), stream_(file, offset, size), in_(&stream_) {
    in_.SetTotalBytesLimit(std::numeric_limits<int>::max());
  }

  std::optional<Feature> image, label, text;
  std::set<std::string> names;
  std::string twice;  // a name that is there again

  bool read() {
    return message([&](std::uint32_t tag) {
      return tag == message_field(1) ? part([&] { return features(); }) : skip(tag);
    });
  }

 private:
  static constexpr std::uint32_t message_field(std::uint32_t number) { return number << 3 | 2; }

  bool skip(std::uint32_t tag) { return WireFormatLite::SkipField(&in_, tag); }

  // The fields up to the end of a message.
  template <typename Field>
  bool message(const Field& field) {
    while (const std::uint32_t tag = in_.ReadTag())
      if (!field(tag)) return false;
    return in_.ConsumedEntireMessage();
  }
  // A message inside another.
  template <typename Read>
  bool part(const Read& read) {
    int size = 0;
    if (!in_.ReadVarintSizeAsInt(&size)) return false;
    const auto limit = in_.PushLimit(size);
    if (in_.BytesUntilLimit() != size) return false;  // beyond that around it
    const bool good = read() && in_.BytesUntilLimit() == 0;
    in_.PopLimit(limit);
    return good;
  }

  bool features() {
    return message([&](std::uint32_t tag) {
      return tag == message_field(1) ? part([&] { return entry(); }) : skip(tag);
    });
  }

  bool entry() {
    std::string name;
    Feature feature;
    const bool good = message([&](std::uint32_t tag) {
      if (tag == message_field(1)) return name_of_feature(name);
      if (tag == message_field(2)) return part([&] { return value(feature); });
      return skip(tag);
    });
    if (!good) return false;
    if (!names.insert(name).second) twice = name;
    if (name == kImage) {
      image = std::move(feature);
    } else if (name == kLabel) {
      label = std::move(feature);
    } else if (name == kText) {
      text = std::move(feature);
    }
    return true;
  }

  bool name_of_feature(std::string& name) {
    int size = 0;
    return in_.ReadVarintSizeAsInt(&size) && size <= kMostNameBytes && in_.ReadString(&name, size);
  }

  bool value(Feature& feature) {
    return message([&](std::uint32_t tag) {
      if (tag == message_field(1)) return part([&] { return bytes(feature); });
      if (tag == message_field(3)) return part([&] { return numbers(feature); });
      return skip(tag);
    });
  }

  bool bytes(Feature& feature) {
    return message([&](std::uint32_t tag) {
      if (tag != message_field(1)) return skip(tag);
      int size = 0;
      if (!in_.ReadVarintSizeAsInt(&size)) return false;
      if (feature.bytes++ != 0) return in_.Skip(size);
      feature.offset = offset_ + in_.CurrentPosition();
      feature.size = size;
      return size <= kMostNameBytes ? in_.ReadString(&feature.text, size) : in_.Skip(size);
    });
  }

  bool numbers(Feature& feature) {
    const auto one = [&] {
      std::uint64_t number = 0;
      if (!in_.ReadVarint64(&number)) return false;
      if (feature.numbers++ == 0) feature.number = static_cast<std::int64_t>(number);
      return true;
    };
    return message([&](std::uint32_t tag) {
      if (tag == 1 << 3) return one();
      if (tag != message_field(1)) return skip(tag);
      return part([&] {
        while (in_.BytesUntilLimit() > 0)
          if (!one()) return false;
        return true;
      });
    });
  }

  std::int64_t offset_;
  RecordStream stream_;
  CodedInputStream in_;
};

class TfrecordShard {
 public:
  TfrecordShard(ShardFile& file, const std::function<void(const ShardExample&)>& visit)
      : file_(file), visit_(visit) {}

  void scan() {
    for (; place_ < file_.size(); ++record_) {
      const std::int64_t size = data_size();
      example(place_ + kHeader, size);
      place_ += kHeader + size + kRecordFooter;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    file_.fail(place_, cat("record ", record_, " ", what));
  }

  // Of the record at place_.
  std::int64_t data_size() {
    if (file_.size() - place_ < kHeader)
      fail(cat("ends inside its header: the file was cut short", kRecordRemedy));
    const std::string_view header = file_.at(place_, kHeader);
    if (place_ == 0 && header.starts_with("\x1f\x8b"))
      file_.fail(0, "it is packed by gzip, and pictures are read at random: unpack it");
    if (little_endian(header.substr(8)) != mask_crc(crc32c(header.substr(0, 8))))
      fail(cat("has a wrong checksum of its length: ",
               place_ == 0 ? "this is no TFRecord file, or it is damaged" : "the file is damaged",
               kRecordRemedy));
    const std::uint64_t size = little_endian(header.substr(0, 8));
    const std::int64_t left = file_.size() - place_ - kHeader;
    if (size > static_cast<std::uint64_t>(kMostRecord))
      fail(cat("has ", size, " bytes; at most ", kMostRecord, kRecordRemedy));
    if (static_cast<std::int64_t>(size) + kRecordFooter > left)
      fail(cat("has ", size, " bytes and a checksum, and the file ends after ", left,
               ": it was cut short", kRecordRemedy));
    return static_cast<std::int64_t>(size);
  }

  void example(std::int64_t offset, std::int64_t size) {
    ExampleFields fields(file_, offset, size);
    if (!fields.read()) fail(cat("is no tf.train.Example, or is damaged", kRecordRemedy));
    if (!fields.twice.empty())
      fail(cat("has two features ", fields.twice, "; an example has one", kRecordRemedy));
    const auto need = [&](const std::optional<Feature>& feature, const char* name, const char* what,
                          int Feature::*values) {
      if (!feature)
        fail(cat("has no feature ", name, ", ", what, "; it has ",
                 fields.names.empty() ? std::string("none")
                                      : join_words({fields.names.begin(), fields.names.end()}),
                 ": write the shard with it"));
      if ((*feature).*values != 1)
        fail(cat("has ", (*feature).*values, " values of its feature ", name, ", ", what,
                 "; it needs one", kRecordRemedy));
    };
    need(fields.image, kImage, "the bytes of a JPEG or PNG picture", &Feature::bytes);
    need(fields.label, kLabel, "an int64, the number of its class", &Feature::numbers);
    if (fields.label->number < 0 || fields.label->number >= kMostClasses)
      fail(cat("has the label ", fields.label->number, "; labels are from 0 to ", kMostClasses - 1,
               ": mend it, and write the shard again"));
    if (fields.text && fields.text->bytes > 1)
      fail(cat("has ", fields.text->bytes, " values of its feature ", kText, "; one at most",
               kRecordRemedy));
    if (fields.text && fields.text->size > kMostNameBytes)
      fail(cat("has a feature ", kText, " of ", fields.text->size, " bytes; at most ",
               kMostNameBytes, kRecordRemedy));
    visit_({.name = {},
            .label = fields.label->number,
            .class_text = fields.text ? std::string_view(fields.text->text) : std::string_view(),
            .offset = fields.image->offset,
            .size = fields.image->size,
            .record_offset = offset,
            .record_size = size});
  }

  ShardFile& file_;
  const std::function<void(const ShardExample&)>& visit_;
  std::int64_t place_ = 0, record_ = 0;
};

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void scan_tfrecord(ShardFile& file, const std::function<void(const ShardExample&)>& visit) {
  TfrecordShard(file, visit).scan();
}

bool is_sound_record(std::span<const std::uint8_t> record) {
  PODIUM_CHECK(std::ssize(record) >= kRecordFooter);
  const std::string_view text = text_of(record);
  const std::size_t size = text.size() - static_cast<std::size_t>(kRecordFooter);
  return little_endian(text.substr(size)) == mask_crc(crc32c(text.substr(0, size)));
}

std::string record_problem(std::span<const std::uint8_t> data, const ShardExample& found) {
  examples::Example example;
  if (!example.ParseFromArray(data.data(), static_cast<int>(data.size())))
    return "protobuf cannot read it";
  const auto& features = example.features().feature();
  const auto image = features.find(kImage), label = features.find(kLabel);
  if (image == features.end() || image->second.bytes_list().value_size() != 1)
    return cat("it has not one ", kImage);
  if (label == features.end() || label->second.int64_list().value_size() != 1)
    return cat("it has not one ", kLabel);
  const std::int64_t begin = found.offset - found.record_offset;
  const auto bytes =
      text_of(data).substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(found.size));
  if (image->second.bytes_list().value(0) != bytes) return "its picture lies elsewhere";
  if (label->second.int64_list().value(0) != found.label) return "its label is another";
  return "";
}

}  // namespace podium
