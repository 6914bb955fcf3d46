#include "data/sounds/sounds.h"

#include <fnmatch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "data/source/own_files.h"
#include "data/table/columns.h"
#include "files/archive.h"
#include "files/byte_source.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostSoundBytes = std::uint64_t{1} << 30;

struct Recording {
  std::string name;   // in its folder or archive
  std::string place;  // for people
  std::vector<float> frames;
};

std::vector<std::uint8_t> all_of(ByteSource& source, const std::string& name) {
  PODIUM_REQUIRE(source.most_bytes() <= kMostSoundBytes, ExitCode::kData, name,
                 ": larger than 1 GiB; cut it into recordings");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(source.most_bytes()));
  bytes.resize(source.read(bytes));
  return bytes;
}

std::vector<float> frames_of_file(const std::string& file, const MelFrames& mel) {
  const auto source = open_file_as_is(file, "name a WAV or FLAC file");
  return mel.of(parse_sound(all_of(*source, file), file));
}

// Those of a folder and the folders in it, or of an archive, by name.
std::vector<Recording> read_recordings(const std::string& path, const MelFrames& mel) {
  std::vector<Recording> all;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    std::vector<std::string> names;
    for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error))
      if (is_sound_name(entry->path().string()) && !entry->is_directory())
        names.push_back(entry->path().lexically_relative(path).generic_string());
    PODIUM_REQUIRE(!error, ExitCode::kData, path, ": ", error.message(),
                   "; make it readable, or remove it");
    for (const std::string& name : names) {
      const std::string place = (fs::path(path) / name).string();
      all.push_back({name, place, frames_of_file(place, mel)});
    }
  } else {
    const auto visit = [&](const std::string& member, ByteSource& bytes) {
      if (!is_sound_name(member)) return true;
      const std::string place = cat(path, ": ", member);
      all.push_back({member, place, mel.of(parse_sound(all_of(bytes, place), place))});
      return true;
    };
    read_archive(path, "name a folder or an archive (tar) with WAV or FLAC files", visit);
  }
  PODIUM_REQUIRE(!all.empty(), ExitCode::kData, path,
                 " has no .wav or .flac file; name the folder or archive that has them");
  std::ranges::sort(all, {}, &Recording::name);
  return all;
}

// The class of each.
std::vector<std::string> labels_of(const std::vector<Recording>& all) {
  const auto folder = [](const Recording& one) { return fs::path(one.name).parent_path(); };
  const bool one_folder =
      std::ranges::all_of(all, [&](const Recording& one) { return folder(one) == folder(all[0]); });
  std::vector<std::string> labels;
  for (const Recording& one : all) {
    std::string label = folder(one).filename().string();
    if (one_folder) {
      const std::string file = fs::path(one.name).filename().string();
      const std::size_t end = file.find('_');
      PODIUM_REQUIRE(end != std::string::npos && end > 0, ExitCode::kData, one.place,
                     ": its class is not known: put the recordings of each class in a folder of "
                     "the class's name, or name them CLASS_ANYTHING.wav");
      label = file.substr(0, end);
    }
    PODIUM_REQUIRE(!label.empty(), ExitCode::kData, one.place,
                   ": lies beside the folders of classes; move it into that of its class");
    labels.push_back(std::move(label));
  }
  return labels;
}

std::vector<std::int32_t> classes_of(const std::vector<Recording>& all,
                                     const std::vector<std::string>& words) {
  const std::vector<std::string> labels = labels_of(all);
  std::vector<std::int32_t> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto found = std::ranges::find(words, labels[i]);
    PODIUM_REQUIRE(found != words.end(), ExitCode::kData, all[i].place,
                   ": no recording to train on has its class \"", labels[i], "\"; known are ",
                   join_words(words));
    classes.push_back(static_cast<std::int32_t>(found - words.begin()));
  }
  return classes;
}

std::vector<bool> held_out_files(const std::vector<Recording>& all, const std::string& pattern) {
  std::vector<bool> held_out;
  for (const Recording& one : all)
    held_out.push_back(::fnmatch(pattern.c_str(), one.name.c_str(), 0) == 0);
  const auto count = std::ranges::count(held_out, true);
  PODIUM_REQUIRE(count > 0 && count<std::ssize(all), ExitCode::kData, "data.held_out_files = \"",
                                    pattern, "\" matches ", count> 0
                     ? "every"
                     : "no",
                 " recording, as ", all[0].name, "; write a pattern that matches some");
  return held_out;
}

// The mean and deviation of each band in the recordings that are not held out.
void normalise_by(const std::vector<Recording>& all, const std::vector<bool>& held_out,
                  Field& frames) {
  const auto mels = static_cast<std::size_t>(frames.shape[1]);
  frames.mean.assign(mels, 0), frames.deviation.assign(mels, 0);
  double count = 0;
  const auto for_each_frame = [&](const auto& each) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!held_out[i])
        for (std::size_t at = 0; at < all[i].frames.size(); ++at)
          each(static_cast<double>(all[i].frames[at]), at % mels);
  };
  for_each_frame([&](double value, std::size_t mel) {
    frames.mean[mel] += value;
    count += mel == 0 ? 1 : 0;
  });
  for (double& mean : frames.mean) mean /= count;
  for_each_frame([&](double value, std::size_t mel) {
    const double off = value - frames.mean[mel];
    frames.deviation[mel] += off * off;
  });
  for (double& deviation : frames.deviation) {
    deviation = std::sqrt(deviation / count);
    if (deviation == 0) deviation = 1;
  }
}

// Appends an example: the frames, cut to the context or followed by silence, normalised.
void append_frames(std::vector<float> frames, const Field& field,
                   std::vector<std::int32_t>& values) {
  frames.resize(static_cast<std::size_t>(field.shape.elements()), MelFrames::silence());
  for (std::size_t at = 0; at < frames.size(); ++at) {
    const std::size_t mel = at % field.mean.size();
    const double value = (static_cast<double>(frames[at]) - field.mean[mel]) / field.deviation[mel];
    values.push_back(std::bit_cast<std::int32_t>(static_cast<float>(value)));
  }
}

// How many are longer than the context, unless that is an error.
std::int64_t count_too_long(std::span<const Recording> all, const Shape& frames, bool cuts) {
  const std::int64_t context = frames[0], mels = frames[1];
  const auto length = [&](const Recording& one) { return std::ssize(one.frames) / mels; };
  const auto too_long =
      std::ranges::count_if(all, [&](const Recording& one) { return length(one) > context; });
  if (cuts || too_long == 0) return too_long;
  const Recording& longest = *std::ranges::max_element(all, {}, length);
  throw UserError(cat(count_text(too_long, "recording"), " of ", with_commas(std::ssize(all)),
                      " longer than data.context = ", context, "; the longest, ", longest.place,
                      ", has ", count_text(length(longest), "frame"),
                      ". Cut them at their ends, data.too_long=cut, or train with data.context=",
                      length(longest)),
                  ExitCode::kData);
}

}  // namespace

Sounds open_sounds(const std::string& path, const SoundOptions& sounds, const TextOptions& text,
                   double held_out, std::uint64_t split_seed, const std::string& data_dir) {
  const MelFrames mel(sounds.mel);
  const OwnFile& own = *own_file(kSoundData);
  const std::string place = find_own_file(own, path, data_dir);
  const std::vector<Recording> all = read_recordings(place, mel);
  const std::vector<std::string> labels = labels_of(all);
  const std::set<std::string> sorted(labels.begin(), labels.end());
  const std::vector<std::string> words(sorted.begin(), sorted.end());
  PODIUM_REQUIRE(words.size() > 1, ExitCode::kData, place, ": every recording has the class \"",
                 words[0],
                 "\", so there is nothing to predict; put those of each class in a "
                 "folder of its name");
  const bool apart = !text.held_out_path.empty();
  std::vector<bool> rest(all.size());
  if (!apart)
    rest = sounds.held_out_files.empty() ? held_out_rows(std::ssize(all), held_out, split_seed)
                                         : held_out_files(all, sounds.held_out_files);
  const std::vector<std::int32_t> classes = classes_of(all, words);
  for (std::size_t label = 0; label < words.size(); ++label) {
    bool trained = false;
    for (std::size_t i = 0; i < all.size() && !trained; ++i)
      trained = !rest[i] && classes[i] == static_cast<std::int32_t>(label);
    PODIUM_REQUIRE(trained, ExitCode::kData, place, ": every recording of the class \"",
                   words[label],
                   "\" is held out, so that the network would never hear one; hold "
                   "out fewer or others");
  }

  Field frames{.name = kFramesField, .shape = Shape{text.context, mel.mels()}, .unit = "recording"};
  normalise_by(all, rest, frames);
  const std::vector<Field> fields = {frames,
                                     {.name = "label",
                                      .dtype = DType::kI32,
                                      .below = std::ssize(words),
                                      .words = words,
                                      .target = true}};
  Sounds both;
  const auto check_lengths = [&](const std::string& from, const std::vector<Recording>& of) {
    const std::int64_t cut = count_too_long(of, frames.shape, text.too_long == kCutIfTooLong);
    if (cut > 0)
      both.notes.push_back(cat(count_text(cut, "recording"), " of ", with_commas(std::ssize(of)),
                               " in ", from, " longer than ", text.context,
                               " frames, cut at the end"));
  };
  check_lengths(place, all);
  const auto part = [&](const std::string& from, const std::vector<Recording>& recordings,
                        const std::vector<std::int32_t>& all_classes,
                        const std::vector<bool>& left_out) {
    std::vector<std::int32_t> values, targets;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < recordings.size(); ++i) {
      if (left_out[i]) continue;
      append_frames(recordings[i].frames, frames, values);
      targets.push_back(all_classes[i]);
      names.push_back(recordings[i].name);
    }
    return std::make_shared<const RowSource>(from, fields, "number", std::move(values),
                                             std::move(targets), std::move(names));
  };
  both.train = part(place, all, classes, rest);
  if (apart) {
    const std::string other = find_own_file(own, text.held_out_path, data_dir);
    const std::vector<Recording> others = read_recordings(other, mel);
    check_lengths(other, others);
    both.held_out =
        part(other, others, classes_of(others, words), std::vector<bool>(others.size(), false));
    return both;
  }
  rest.flip();
  both.held_out = part(place, all, classes, rest);
  return both;
}

SoundReader::SoundReader(const std::vector<Field>& fields, const MelOptions& mel, bool cuts)
    : mel_(mel), cuts_(cuts) {
  const Field* const frames = find_field(fields, kFramesField);
  PODIUM_REQUIRE(frames != nullptr && frames->shape.rank() == 2 &&
                     frames->shape[1] == mel_.mels() && std::ssize(frames->mean) == mel_.mels() &&
                     frames->mean.size() == frames->deviation.size(),
                 ExitCode::kData, "the run is not one on sounds, but on ", to_text(fields));
  frames_ = *frames;
}

void SoundReader::read(const std::string& file) {
  const Recording one{file, file, frames_of_file(file, mel_)};
  count_too_long({&one, 1}, frames_.shape, cuts_);
  append_frames(one.frames, frames_, values_);
}

}  // namespace podium
