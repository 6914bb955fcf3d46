#include "train/loop/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "base/json_text.h"
#include "base/log.h"
#include "base/numerics/contract.h"
#include "data/pictures/image_source.h"
#include "files/file_io.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kFolder = "checkpoints";
constexpr std::string_view kStatePart = "state.safetensors";
constexpr std::string_view kRecordPart = "checkpoint.json";
constexpr std::string_view kFormat = "podium-checkpoint";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kBestFolder = "best";
constexpr std::string_view kWritingPrefix = ".writing-";
constexpr std::string_view kRemovingPrefix = ".removing-";
constexpr std::string_view kDamagedPrefix = "damaged-";
// The last line of checkpoint.json: the CRC-32 of all text before it. A promise to later versions.
constexpr std::string_view kSealBegin = ",\n  \"json_crc32\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";
constexpr std::size_t kSealBytes = kSealBegin.size() + 8 + kSealEnd.size();
// Of steps and bytes.
constexpr std::uint64_t kMostCount = std::uint64_t{1} << 62;

// The one fault of a checkpoint that is no damage, so that an older one must not stand in for it.
class OtherVersion : public UserError {
 public:
  using UserError::UserError;
};

std::string folder_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return cat(kStepPrefix, digits);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (error != std::errc() || rest != end || step < 0 || folder_name(step) != name)
    return std::nullopt;
  return step;
}

std::string record_text(const Checkpoint& checkpoint, const WrittenFile& state) {
  const ordered_json record = {
      {"format", kFormat},
      {"format_version", kCheckpointFormat},
      {"step", checkpoint.step},
      {"metadata", checkpoint.metadata},
      {"state", {{"file", kStatePart}, {"bytes", state.bytes}, {"crc32", crc32_text(state.crc)}}},
  };
  std::string text = json_text(record, 2);
  text.resize(text.size() - 2);  // "\n}" comes again at the end
  return cat(text, kSealBegin, crc32_text(crc32_of(text)), kSealEnd);
}

bool is_sealed(std::string_view text) {
  if (text.size() < kSealBytes) return false;
  const std::string_view body = text.substr(0, text.size() - kSealBytes);
  return text.substr(body.size()) == cat(kSealBegin, crc32_text(crc32_of(body)), kSealEnd);
}

void set_aside(const fs::path& folder) {
  for (int i = 1; i < 1000; ++i) {
    fs::path to = folder.parent_path() / cat(kDamagedPrefix, folder.filename().string());
    if (i > 1) to += cat("-", i);
    if (fs::exists(to)) continue;
    if (::rename(folder.c_str(), to.c_str()) != 0) throw_io_error(folder, "set aside", errno);
    return;
  }
}

// Under another name first: a kill midway must not leave a checkpoint that looks damaged.
void remove_folder(const fs::path& folder) {
  const fs::path doomed = folder.parent_path() / cat(kRemovingPrefix, folder.filename().string());
  std::error_code error;
  fs::remove_all(doomed, error);
  if (::rename(folder.c_str(), doomed.c_str()) == 0) {
    fs::remove_all(doomed, error);
    if (!error) return;
  }
  log(LogLevel::kWarning, cat(folder.string(), ": an old checkpoint could not be removed"));
}

// Puts `written` where `place` is or was, at every instant with a whole checkpoint there, if the
// file system can exchange two folders.
void move_into_place(const fs::path& written, const fs::path& place) {
  if (::rename(written.c_str(), place.c_str()) == 0) return;
  if (errno != EEXIST && errno != ENOTEMPTY) throw_io_error(place, "write", errno);
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
    remove_folder(written);
    return;
  }
#endif
  remove_folder(place);
  if (::rename(written.c_str(), place.c_str()) != 0) throw_io_error(place, "write", errno);
}

bool is_same_checkpoint(const fs::path& place, const std::string& record,
                        const WrittenFile& state) {
  if (!fs::exists(place)) return false;
  try {
    return read_text(place / kRecordPart) == record &&
           crc32_of_file(place / kStatePart) == state.crc;
  } catch (const UserError&) {
    return false;
  }
}

// Throws UserError for damage of any kind, OtherVersion for another format.
Checkpoint read_checkpoint(const fs::path& folder, StopToken stop = {}) {
  const auto require = [&](bool condition, const auto&... what) {
    PODIUM_REQUIRE(condition, ExitCode::kData, folder.string(), ": ", what...);
  };
  try {
    require(!fs::exists(folder) || fs::is_directory(folder),
            "is a file, not the folder of a checkpoint; move it away");
    const fs::path state_path = folder / kStatePart;
    const std::optional<std::string> text =
        read_text(folder / kRecordPart, std::uint64_t{64} << 20);
    require(text.has_value(), "has no ", kRecordPart);
    require(is_sealed(*text), kRecordPart, " does not match its checksum");
    CheckpointRecord record = parse_checkpoint_record(*text, folder.string());
    Checkpoint checkpoint;
    checkpoint.step = record.step;
    checkpoint.metadata = std::move(record.metadata);
    require(step_of(folder.filename().string()).value_or(checkpoint.step) == checkpoint.step,
            "contains step ", checkpoint.step, ", not the step in its name");

    require(fs::exists(state_path), "has no ", kStatePart);
    const std::uint64_t found = fs::file_size(state_path);
    require(found == record.bytes, kStatePart, " has ", found, " bytes, not the ", record.bytes,
            " that were written");
    require(crc32_text(crc32_of_file(state_path, stop)) == record.crc32, kStatePart,
            " does not match its checksum");
    checkpoint.tensors = read_safetensors(state_path, stop).tensors;
    return checkpoint;
  } catch (const fs::filesystem_error& error) {
    require(false, "cannot be read: ", error.code().message());
  }
  PODIUM_CHECK(false);  // not reached
}

}  // namespace

CheckpointRecord parse_checkpoint_record(std::string_view text, const std::string& source) {
  const auto require = [&](bool condition, const auto&... what) {
    PODIUM_REQUIRE(condition, ExitCode::kData, source, ": ", what...);
  };
  const auto count = [&](const ordered_json& in, const char* name) {
    const ordered_json& value = in.at(name);
    require(value.is_number_unsigned() && value.get<std::uint64_t>() <= kMostCount, kRecordPart,
            ": \"", name, "\" is not a count");
    return value.get<std::int64_t>();
  };
  try {
    const ordered_json record = ordered_json::parse(text);
    require(record.at("format").get<std::string>() == kFormat, "is not a checkpoint of Podium");
    const std::int64_t version = count(record, "format_version");
    if (version != kCheckpointFormat) {
      throw OtherVersion(
          cat(source, ": has checkpoint format ", version, ", this Podium reads format ",
              kCheckpointFormat, "; use the Podium that wrote it, or start over with --fresh"),
          ExitCode::kData);
    }
    const ordered_json& state = record.at("state");
    return {.step = count(record, "step"),
            .metadata = record.at("metadata").get<std::map<std::string, std::string>>(),
            .bytes = static_cast<std::uint64_t>(count(state, "bytes")),
            .crc32 = state.at("crc32").get<std::string>()};
  } catch (const ordered_json::exception& error) {
    require(false, kRecordPart, " is malformed (", error.what(), ")");
  }
  PODIUM_CHECK(false);  // not reached
}

std::vector<CheckpointPlace> list_checkpoints(const fs::path& run_dir) {
  std::vector<CheckpointPlace> places;
  std::error_code error;
  fs::directory_iterator entries(run_dir / kFolder, error);
  if (error == std::errc::no_such_file_or_directory) return places;
  if (error) throw_io_error(run_dir / kFolder, "open", error.value());
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    if (const auto step = step_of(entries->path().filename().string()))
      places.push_back({*step, entries->path()});
  }
  if (error) throw_io_error(run_dir / kFolder, "read", error.value());
  std::sort(places.begin(), places.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return places;
}

int set_aside_checkpoints(const fs::path& run_dir, std::int64_t step) {
  int count = 0;
  for (const CheckpointPlace& place : list_checkpoints(run_dir)) {
    if (place.step <= step) continue;
    set_aside(place.folder);
    ++count;
  }
  std::error_code ignored;
  if (const fs::path best = best_checkpoint(run_dir); fs::exists(best, ignored)) {
    bool is_later = true;  // one that cannot be read may be of any step
    try {
      is_later = load_checkpoint(best).step > step;
    } catch (const UserError&) {
    }
    if (is_later) set_aside(best), ++count;
  }
  return count;
}

void clean_checkpoints(const fs::path& run_dir) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir / kFolder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kWritingPrefix) || name.starts_with(kRemovingPrefix))
      leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, error);
}

namespace {

// Puts the checkpoint into a folder of that name.
void put_checkpoint(const fs::path& run_dir, const Checkpoint& checkpoint,
                    const std::string& name) {
  const fs::path parent = run_dir / kFolder;
  const fs::path place = parent / name;
  const fs::path written = parent / cat(kWritingPrefix, name);
  std::error_code unknown;
  const bool is_new = !fs::exists(parent, unknown);
  make_folders(parent);
  if (is_new) sync_folder(run_dir);
  clean_checkpoints(run_dir);
  try {
    make_folders(written);
    std::map<std::string, std::string> metadata = checkpoint.metadata;
    metadata["format"] = kFormat;
    metadata["format_version"] = std::to_string(kCheckpointFormat);
    metadata["step"] = std::to_string(checkpoint.step);
    const WrittenFile state = write_safetensors(written / kStatePart, checkpoint.tensors, metadata);
    const std::string record = record_text(checkpoint, state);
    if (is_same_checkpoint(place, record, state)) {
      remove_folder(written);
    } else {
      replace_text(written / kRecordPart, record);  // syncs the folder, too
      move_into_place(written, place);
    }
  } catch (const UserError& error) {
    std::error_code ignored;
    fs::remove_all(written, ignored);
    throw UserError(cat("the checkpoint of step ", checkpoint.step,
                        " could not be saved; earlier ones are intact: ", error.what()),
                    error.code());
  }
  sync_folder(parent);
}

}  // namespace

void write_best_checkpoint(const fs::path& run_dir, const Checkpoint& checkpoint) {
  put_checkpoint(run_dir, checkpoint, std::string(kBestFolder));
}

fs::path best_checkpoint(const fs::path& run_dir) { return run_dir / kFolder / kBestFolder; }

void write_checkpoint(const fs::path& run_dir, const Checkpoint& checkpoint, int keep) {
  PODIUM_CHECK(checkpoint.step >= 0 && keep >= 1, checkpoint.step, " ", keep);
  put_checkpoint(run_dir, checkpoint, folder_name(checkpoint.step));
  std::vector<CheckpointPlace> places = list_checkpoints(run_dir);
  while (!places.empty() && places.back().step > checkpoint.step) {
    set_aside(places.back().folder);
    places.pop_back();
  }
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < places.size(); ++i)
    remove_folder(places[i].folder);
}

Checkpoint load_checkpoint(const fs::path& folder) { return read_checkpoint(folder); }

std::optional<Checkpoint> load_latest(const fs::path& run_dir,
                                      const std::function<void(const std::string&)>& warn,
                                      Damaged damaged, StopToken stop) {
  // A reader beside the run may find that a checkpoint was replaced by a newer one meanwhile.
  constexpr int kScans = 100;
  for (int scan = 0;; ++scan) {
    const std::vector<CheckpointPlace> places = list_checkpoints(run_dir);
    std::vector<fs::path> bad;
    std::string reasons;
    bool rescan = false;
    for (auto place = places.rbegin(); place != places.rend() && !rescan; ++place) {
      // What may not be read is not damaged.
      if (fs::is_directory(place->folder) && ::access(place->folder.c_str(), R_OK | X_OK) != 0 &&
          errno == EACCES)
        throw_io_error(place->folder, "open", EACCES);
      std::optional<Checkpoint> checkpoint;
      try {
        checkpoint = read_checkpoint(place->folder, stop);
      } catch (const OtherVersion&) {
        throw;
      } catch (const UserError& error) {
        if (!fs::exists(place->folder) && scan < kScans) {
          rescan = true;
          continue;
        }
        if (warn) warn(cat("skipping a damaged checkpoint: ", error.what()));
        bad.push_back(place->folder);
        reasons += cat("\n  ", error.what());
      }
      if (!checkpoint) continue;
      if (damaged == Damaged::kSetAside)
        for (const fs::path& folder : bad) set_aside(folder);
      return checkpoint;
    }
    if (rescan) continue;
    PODIUM_REQUIRE(bad.empty(), ExitCode::kData, (run_dir / kFolder).string(),
                   ": every checkpoint is damaged; restore one from a copy, or start over with "
                   "--fresh:",
                   reasons);
    return std::nullopt;
  }
}

void require_same_contract(const Checkpoint& checkpoint, const Precision& precision) {
  const int contract = numerical_contract(precision);
  const auto found = checkpoint.metadata.find(kContractKey);
  if (found == checkpoint.metadata.end()) return;  // written before contracts had numbers
  PODIUM_REQUIRE(found->second == std::to_string(contract), ExitCode::kData,
                 "the checkpoint of step ", checkpoint.step,
                 " was computed under numerical contract ", found->second,
                 ", and this Podium computes under ", contract,
                 ": its further steps would have other bits. Finish the run with the Podium that "
                 "started it (environment.json names its version and commit), or start over with "
                 "--fresh or another --out folder");
}

namespace {

// How older checkpoints state their fields: "CHANNELS HEIGHT WIDTH CLASSES", and a JSON array of
// names.
constexpr const char *kOlderInputKey = "input", *kOlderNamesKey = "class_names";

[[noreturn]] void refuse_fields(const Checkpoint& checkpoint, const std::string& text) {
  throw UserError(
      cat("the checkpoint of step ", checkpoint.step, " states the fields of its data as \"", text,
          "\", which is not a list of fields; restore it from a copy"),
      ExitCode::kData);
}

std::vector<std::string> names_in(const nlohmann::json& json) {
  std::vector<std::string> names;
  if (!json.is_array()) return names;
  for (const auto& name : json) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Finite ones; empty: it is no list of such.
std::vector<double> numbers_in(const nlohmann::json& json) {
  std::vector<double> numbers;
  if (!json.is_array()) return numbers;
  for (const auto& number : json) {
    if (!number.is_number() || !std::isfinite(number.get<double>())) return {};
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

nlohmann::json parsed(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::vector<Field> older_fields_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.metadata.find(kOlderInputKey);
  if (found == checkpoint.metadata.end()) return {};
  std::istringstream text(found->second);
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 0; text >> number;) {
    if (number < 1 || number > kMostClasses) refuse_fields(checkpoint, found->second);
    numbers.push_back(number);
  }
  if (!text.eof() || numbers.size() != 4) refuse_fields(checkpoint, found->second);
  std::vector<std::string> names;
  if (const auto stated = checkpoint.metadata.find(kOlderNamesKey);
      stated != checkpoint.metadata.end())
    names = names_in(parsed(stated->second));
  if (std::ssize(names) != numbers[3]) names.clear();
  return image_fields(numbers[0], numbers[1], numbers[2], numbers[3], std::move(names));
}

}  // namespace

std::string fields_text(const std::vector<Field>& fields) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Field& field : fields) {
    nlohmann::ordered_json one = {
        {"name", field.name},
        {"dtype", to_string(field.dtype)},
        {"shape",
         std::vector<std::int64_t>(field.shape.extents().begin(), field.shape.extents().end())}};
    if (!field.unit.empty()) one["unit"] = field.unit;
    if (field.below != 0) one["below"] = field.below;
    if (!field.words.empty()) one["words"] = field.words;
    if (field.target) one["target"] = true;
    if (!field.deviation.empty()) one["mean"] = field.mean, one["deviation"] = field.deviation;
    list.push_back(std::move(one));
  }
  return json_text(list);
}

std::vector<Field> fields_of(const Checkpoint& checkpoint) {
  constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;
  const auto found = checkpoint.metadata.find(kFieldsKey);
  if (found == checkpoint.metadata.end()) return older_fields_of(checkpoint);
  const auto refuse_unless = [&](bool right) {
    if (!right) refuse_fields(checkpoint, found->second);
  };
  const nlohmann::json list = parsed(found->second);
  refuse_unless(list.is_array());
  std::vector<Field> fields;
  for (const nlohmann::json& one : list) {
    refuse_unless(one.is_object() && one.contains("name") && one["name"].is_string() &&
                  one.contains("dtype") && (one["dtype"] == "f32" || one["dtype"] == "i32") &&
                  one.contains("shape") && one["shape"].is_array());
    std::vector<std::int64_t> extents;
    std::int64_t elements = 1;
    for (const nlohmann::json& extent : one["shape"]) {
      refuse_unless(extent.is_number_integer() && extent.get<std::int64_t>() >= 1 &&
                    extent.get<std::int64_t>() <= kMostExtent / elements);
      elements *= extents.emplace_back(extent.get<std::int64_t>());
    }
    Field& field = fields.emplace_back();
    field.name = one["name"].get<std::string>();
    field.dtype = one["dtype"] == "f32" ? DType::kF32 : DType::kI32;
    field.shape = Shape(std::move(extents));
    if (one.contains("unit") && one["unit"].is_string()) field.unit = one["unit"];
    if (one.contains("below")) {
      refuse_unless(one["below"].is_number_integer() && one["below"].get<std::int64_t>() >= 0 &&
                    one["below"].get<std::int64_t>() <= kMostExtent);
      field.below = one["below"].get<std::int64_t>();
    }
    if (one.contains("words")) field.words = names_in(one["words"]);
    // Of integers the names of some, of floats that of each.
    if (std::ssize(field.words) > (field.dtype == DType::kI32 ? field.below : elements))
      field.words.clear();
    if (one.contains("mean") && one.contains("deviation")) {
      field.mean = numbers_in(one["mean"]), field.deviation = numbers_in(one["deviation"]);
      const std::int64_t last = field.shape.rank() == 0 ? 1 : field.shape.extents().back();
      refuse_unless((std::ssize(field.mean) == elements || std::ssize(field.mean) == last) &&
                    field.deviation.size() == field.mean.size());
    }
    field.target = one.contains("target") && one["target"] == true;
  }
  return fields;
}

}  // namespace podium
