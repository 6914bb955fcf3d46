#include "data/pictures/shards/tar_shard.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>

#include "base/error.h"
#include "data/pictures/image_source.h"
#include "data/pictures/shards/records.h"

namespace podium {
namespace {

constexpr std::int64_t kTarBlock = 512;
constexpr std::int64_t kMostExtension = std::int64_t{1} << 20;  // of a name or of pax records
constexpr std::int64_t kMostLabelBytes = 64;
constexpr std::int64_t kMostJsonBytes = std::int64_t{1} << 20;
constexpr const char* kJsonField = "label";
constexpr const char* kTarRemedy = "; write the shard again, or leave it out";

// The text of a field, up to its first 0.
std::string_view field(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view text = header.substr(at, size);
  return text.substr(0, text.find('\0'));
}

bool is_zero(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c == '\0'; });
}

// Digits of base 8 with blanks around them; nullopt: something else.
std::optional<std::int64_t> octal(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) return 0;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// A size as octal digits or, above 8 GiB, as GNU's binary number.
std::optional<std::int64_t> size_in(std::string_view text) {
  if ((static_cast<unsigned char>(text.front()) & 0x80U) == 0) return octal(text);
  std::uint64_t value = static_cast<unsigned char>(text.front()) & 0x7FU;
  for (const char c : text.substr(1)) {
    if (value >> 55 != 0) return std::nullopt;
    value = value << 8 | static_cast<unsigned char>(c);
  }
  return static_cast<std::int64_t>(value);
}

// The sum of a header's bytes, with blanks for the sum itself, as POSIX has it and as old programs
// did, with signs.
bool has_checksum(std::string_view header) {
  std::int64_t plain = 0, with_signs = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : header[i];
    plain += static_cast<unsigned char>(c);
    with_signs += static_cast<signed char>(c);
  }
  const auto stated = octal(header.substr(148, 8));
  return stated && (*stated == plain || *stated == with_signs);
}

class TarShard {
 public:
  TarShard(ShardFile& file, const std::function<void(const ShardExample&)>& visit)
      : file_(file), visit_(visit) {}

  std::int64_t scan() {
    while (next_member()) {
    }
    end_example();
    if (early_json_) ++others_;
    require_nothing_after();
    return others_;
  }

 private:
  struct Part {
    std::string name;
    std::int64_t header = 0, offset = 0, size = 0;
  };

  // Reads the header at place_; false: it is the end.
  bool next_member() {
    if (file_.size() - place_ < kTarBlock)
      file_.fail(place_, cat(place_ < file_.size() ? "the tar ends inside a header"
                                                   : "the tar has no block of zeros at its end",
                             ": it was cut short", kTarRemedy));
    // The window moves on with what is read after it.
    const std::string header(file_.at(place_, kTarBlock));
    if (is_zero(header)) return false;
    if (!has_checksum(header)) fail_unreadable(header);
    const auto stated = size_in(std::string_view(header).substr(124, 12));
    if (!stated) file_.fail(place_ + 124, cat("the size of a member is no number", kTarRemedy));
    const char type = header[156];
    // An extension has a size of its own, and states that of the member after it.
    const bool extends = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const bool has_no_bytes = type >= '1' && type <= '6';  // links, devices, folders
    const std::int64_t size = has_no_bytes ? 0 : !extends && next_size_ ? *next_size_ : *stated;
    Part part{.header = place_, .offset = place_ + kTarBlock, .size = size};
    if (size > file_.size() - part.offset)
      file_.fail(place_, cat("a member of ", size, " bytes goes beyond the end of the file, which ",
                             "has ", file_.size(), ": it was cut short", kTarRemedy));
    // The last member may lack what fills its block up; then the end is missing, too.
    place_ = std::min(part.offset + (size + kTarBlock - 1) / kTarBlock * kTarBlock, file_.size());
    if (extends) {
      if (size > kMostExtension)
        file_.fail(part.header, cat("the extension of a header has ", size, " bytes, more than ",
                                    kMostExtension, kTarRemedy));
      if (type == 'L') next_name_ = std::string(field(file_.at(part.offset, size), 0, kNoEnd));
      if (type == 'x') read_pax(part, file_.at(part.offset, size));
      return true;
    }
    part.name = next_name_ ? *next_name_ : name_in(header);
    next_name_.reset();
    next_size_.reset();
    if (type == 'S' || sparse_)
      file_.fail(part.header,
                 cat(part.name, ": a file with holes; write the shard without --sparse"));
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (is_file && !part.name.ends_with('/')) {
      add(std::move(part));
    } else if (type != '5' && !part.name.ends_with('/')) {
      ++others_;  // links and devices
    }
    return true;
  }

  [[noreturn]] void fail_unreadable(std::string_view header) const {
    if (place_ == 0 && header.starts_with("\x1f\x8b"))
      file_.fail(0, "it is packed by gzip, and pictures are read at random: unpack it");
    file_.fail(place_, cat("the checksum of a header is wrong: ",
                           place_ == 0 ? "this is no tar, or it is damaged" : "the tar is damaged",
                           kTarRemedy));
  }

  static std::string name_in(std::string_view header) {
    std::string name(field(header, 0, 100));
    // What GNU writes there is something else.
    if (header.substr(257, 6) == std::string_view("ustar\0", 6)) {
      const std::string_view prefix = field(header, 345, 155);
      if (!prefix.empty()) name = cat(prefix, "/", name);
    }
    return name;
  }

  // Records "LENGTH KEY=VALUE\n" for the member that follows.
  void read_pax(const Part& part, std::string_view records) {
    const auto require = [&](bool condition) {
      if (!condition)
        file_.fail(part.offset, cat("the pax records of a member are damaged", kTarRemedy));
    };
    while (!records.empty() && !is_zero(records)) {
      std::size_t length = 0;
      const char* const end = records.data() + records.size();
      const char* const begin =
          records.data();  // NOLINT(bugprone-suspicious-stringview-data-usage)
      const auto [rest, error] = std::from_chars(begin, end, length);
      const auto digits = static_cast<std::size_t>(rest - begin);
      require(error == std::errc() && length <= records.size() && length >= digits + 3 &&
              *rest == ' ' && records[length - 1] == '\n');
      const std::string_view record = records.substr(digits + 1, length - digits - 2);
      const std::size_t equals = record.find('=');
      require(equals != std::string_view::npos);
      const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (key == "path") next_name_ = std::string(value.substr(0, value.find('\0')));
      if (key == "size") {
        std::int64_t size = 0;
        const auto [last, bad] = std::from_chars(value.data(), value.data() + value.size(), size);
        require(bad == std::errc() && last == value.data() + value.size() && size >= 0);
        next_size_ = size;
      }
      if (key.starts_with("GNU.sparse.")) sparse_ = true;
      records.remove_prefix(length);
    }
  }

  void add(Part part) {
    std::string_view name = part.name;
    while (name.starts_with("./")) name.remove_prefix(2);
    const std::size_t slash = name.rfind('/');
    const std::size_t file = slash == std::string_view::npos ? 0 : slash + 1;
    const std::size_t dot = name.find('.', file);
    if (dot == std::string_view::npos || dot == file) {
      ++others_;
      return;
    }
    const std::string_view key = name.substr(0, dot), rest = name.substr(dot + 1);
    const bool is_picture = rest.find('.') == std::string_view::npos && is_picture_name(name);
    if (rest == "json") return add_json(part, key);
    if (!is_picture && rest != "cls") {
      ++others_;
      return;
    }
    if (key != key_) begin_example(part, key);
    std::optional<Part>& own = is_picture ? picture_ : label_;
    if (own)
      file_.fail(part.header, cat("the key ", key_, " has two ", is_picture ? "pictures" : "labels",
                                  ", ", own->name, " at byte ", own->header, " and ", part.name,
                                  "; a key has one: rename or remove the other"));
    if (!is_picture) label_number_ = label_of(part);
    part.name = std::string(name);
    own = std::move(part);
  }

  // It is read at the end of its example, if that has no .cls. It may be the first of its key.
  void add_json(const Part& part, std::string_view key) {
    const bool is_early = key != key_ || (!picture_ && !label_);
    if (is_early && early_json_ && key != early_key_) {
      ++others_;
      early_json_.reset();
    }
    std::optional<Part>& own = is_early ? early_json_ : json_;
    if (own)
      file_.fail(part.header, cat("the key ", key, " has two labels, at byte ", own->header,
                                  " and here (", part.name, "); a key has one: remove the other"));
    if (is_early) early_key_ = key;
    own = part;
  }

  void begin_example(const Part& part, std::string_view key) {
    end_example();
    if (early_json_ && key == early_key_) {
      json_ = std::move(early_json_);
    } else if (early_json_) {
      ++others_;
    }
    early_json_.reset();
    key_ = key;
    if (keys_.emplace(key).second) return;
    file_.fail(part.header,
               cat("the key ", key, " was there before (", part.name,
                   "); the files of a key follow each other in a shard, and no other example has "
                   "it: sort the members by their names, or rename one"));
  }

  void end_example() {
    if (!picture_ && !label_) return;
    if (json_ && (label_ || !picture_)) {
      ++others_;
    } else if (json_) {
      label_number_ = label_of_json(*json_);
      label_ = json_;
    }
    json_.reset();
    if (!label_)
      file_.fail(
          picture_->header,
          cat("the picture ", picture_->name, " has no label: the file ", key_,
              ".cls, which holds the number of its class, or ", key_, ".json, whose field \"",
              kJsonField, "\" is this number, must stand beside it; add it, or sort the ",
              "members by their names"));
    if (!picture_)
      file_.fail(label_->header,
                 cat("the label ", label_->name, " has no picture: the file ", key_,
                     ".jpg, .jpeg or .png must stand beside it; add it, or sort the members by "
                     "their names"));
    if (picture_->size > kMostPictureBytes)
      file_.fail(picture_->header, cat("the picture ", picture_->name, " has ", picture_->size,
                                       " bytes; at most ", kMostPictureBytes, kTarRemedy));
    visit_({.name = picture_->name,
            .label = label_number_,
            .offset = picture_->offset,
            .size = picture_->size});
    picture_.reset();
    label_.reset();
  }

  std::int64_t label_of(const Part& part) {
    std::string_view text = file_.at(part.offset, std::min(part.size, kMostLabelBytes));
    const std::string_view whole = text;
    constexpr std::string_view kBlanks = " \t\r\n";
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    std::int64_t label = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    const bool number = part.size <= kMostLabelBytes && !text.empty() && error == std::errc() &&
                        end == text.data() + text.size();
    if (!number || label < 0 || label >= kMostClasses)
      fail_label(part, cat("holds \"", shown(whole), "\""), "the number of a class");
    return label;
  }

  std::int64_t label_of_json(const Part& part) {
    const std::string wanted = cat("a field \"", kJsonField, "\" with the number of a class");
    if (part.size > kMostJsonBytes)
      fail_label(part, cat("has ", part.size, " bytes, more than ", kMostJsonBytes), wanted);
    const auto object = nlohmann::json::parse(file_.at(part.offset, part.size), nullptr, false);
    if (!object.is_object()) fail_label(part, "is no JSON object", wanted);
    const auto field = object.find(kJsonField);
    if (field == object.end()) fail_label(part, cat("has no field \"", kJsonField, "\""), wanted);
    const std::int64_t label = field->is_number_unsigned() ? field->get<std::int64_t>() : -1;
    if (label < 0 || label >= kMostClasses)
      fail_label(part,
                 cat("has the field \"", kJsonField, "\" = ",
                     shown(field->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace))),
                 wanted);
    return label;
  }

  static std::string shown(std::string_view text) {
    std::string printable;
    for (const char c : text.substr(0, 32)) printable += c >= ' ' && c <= '~' ? c : '?';
    return printable;
  }

  [[noreturn]] void fail_label(const Part& part, const std::string& what,
                               const std::string& wanted) const {
    file_.fail(part.offset,
               cat("the label ", part.name, " ", what, "; it needs ", wanted, ", from 0 to ",
                   kMostClasses - 1, ": mend it, and write the shard again"));
  }

  // Tars that were joined: programs that read them stop at the first end.
  void require_nothing_after() {
    constexpr std::int64_t kAtOnce = 4096;
    for (std::int64_t at = place_; at < file_.size(); at += kAtOnce) {
      const std::string_view bytes = file_.at(at, std::min(kAtOnce, file_.size() - at));
      const std::size_t first = bytes.find_first_not_of('\0');
      if (first == std::string_view::npos) continue;
      file_.fail(at + static_cast<std::int64_t>(first),
                 cat("there is more after the end of the tar, at byte ", place_,
                     ": tars that were joined are shards of their own", kTarRemedy));
    }
  }

  static constexpr std::size_t kNoEnd = std::string_view::npos;

  ShardFile& file_;
  const std::function<void(const ShardExample&)>& visit_;
  std::int64_t place_ = 0;
  std::optional<std::string> next_name_;  // from an extension
  std::optional<std::int64_t> next_size_;
  bool sparse_ = false;
  std::string key_;  // of the example that is being read
  std::optional<Part> picture_, label_, json_;
  std::optional<Part> early_json_;  // of the key that may follow
  std::string early_key_;
  std::int64_t label_number_ = 0;
  std::unordered_set<std::string> keys_;
  std::int64_t others_ = 0;
};

}  // namespace

std::int64_t scan_tar(ShardFile& file, const std::function<void(const ShardExample&)>& visit) {
  return TarShard(file, visit).scan();
}

}  // namespace podium
