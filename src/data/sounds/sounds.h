// Recordings, each of a class (docs/sounds.md): WAV and FLAC files in a folder or an archive.
//
// An example has the fields "frames", f32 [context, mels], normalised by the recordings to train
// on, and "label", i32: the number of a class. A recording that is shorter than the context ends in
// silence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/sounds/mel.h"
#include "data/sounds/sound_options.h"
#include "data/source/row_source.h"
#include "data/text/text_options.h"

namespace podium {

struct Sounds {
  std::shared_ptr<const RowSource> train, held_out;
  std::vector<std::string> notes;  // of recordings that are cut
};

// The two parts, each in the order of the files' names. The class of a recording is the name of
// the folder that it lies in; where all lie in one, what its own name has before the first `_`.
// What is evaluated is the folder or archive `text.held_out_path`; or else the files that
// `sounds.held_out_files` matches; or else a share of all, drawn by the seed. Throws
// UserError(kData), which names the file and the remedy, if one cannot be read or is longer than
// the context, or a class cannot be learned.
Sounds open_sounds(const std::string& path, const SoundOptions& sounds, const TextOptions& text,
                   double held_out, std::uint64_t split_seed, const std::string& data_dir);

// What a network whose data had these fields reads of files, one after the other.
class SoundReader {
 public:
  SoundReader(const std::vector<Field>& fields, const MelOptions& mel, bool cuts);
  // Appends one recording. Throws as open_sounds() does.
  void read(const std::string& file);
  RowSource rows() const { return {"sounds", {frames_}, "number", values_, {}}; }

 private:
  MelFrames mel_;
  Field frames_;
  bool cuts_;
  std::vector<std::int32_t> values_;
};

}  // namespace podium
