#include "data/sounds/sound_file.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/words.h"

namespace podium {
namespace {

constexpr int kMostChannels = 64;
constexpr std::int64_t kMostRate = 1 << 20;

// A file in memory, as libsndfile reads it.
struct Memory {
  std::span<const std::uint8_t> bytes;
  sf_count_t at = 0;
};

sf_count_t length_of(void* memory) { return std::ssize(static_cast<Memory*>(memory)->bytes); }

sf_count_t seek(sf_count_t offset, int whence, void* memory) {
  Memory& file = *static_cast<Memory*>(memory);
  const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.at : length_of(memory);
  file.at = std::clamp<sf_count_t>(base + offset, 0, length_of(memory));
  return file.at;
}

sf_count_t read(void* to, sf_count_t count, void* memory) {
  Memory& file = *static_cast<Memory*>(memory);
  const sf_count_t got = std::clamp<sf_count_t>(count, 0, length_of(memory) - file.at);
  std::memcpy(to, file.bytes.data() + file.at, static_cast<std::size_t>(got));
  file.at += got;
  return got;
}

sf_count_t write_nothing(const void* /*from*/, sf_count_t /*count*/, void* /*memory*/) { return 0; }

sf_count_t tell(void* memory) { return static_cast<Memory*>(memory)->at; }

// Whether these four letters stand there.
bool has_word(std::span<const std::uint8_t> bytes, std::size_t at, const char* word) {
  return at + 4 <= bytes.size() && std::memcmp(bytes.data() + at, word, 4) == 0;
}
std::uint64_t word_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint64_t word = 0;
  for (std::size_t i = 4; i-- > 0;) word = word << 8 | bytes[at + i];
  return word;
}

// libsndfile takes a WAV that was cut short for one that is shorter.
void require_whole_wav(std::span<const std::uint8_t> bytes, const std::string& name) {
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    const std::uint64_t size = word_at(bytes, at + 4), there = bytes.size() - at - 8;
    PODIUM_REQUIRE(size <= there, ExitCode::kData, name,
                   ": cut short, or its header was never completed: it announces ", size,
                   " more bytes at byte ", at, ", and has ", there,
                   "; copy it again, or convert it: ffmpeg -i IN OUT.wav");
    if (has_word(bytes, at, "data")) return;
    at += static_cast<std::size_t>(8 + size + size % 2);
  }
}

// Whether every decoder gives the same samples.
bool is_exact(int format) {
  const int kind = format & SF_FORMAT_TYPEMASK, sample = format & SF_FORMAT_SUBMASK;
  const bool wav = kind == SF_FORMAT_WAV || kind == SF_FORMAT_WAVEX;
  switch (sample) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_16:
    case SF_FORMAT_PCM_24: return wav || kind == SF_FORMAT_FLAC;
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_ULAW:  // of telephones: each byte stands for one number
    case SF_FORMAT_ALAW:
    case SF_FORMAT_FLOAT:
    case SF_FORMAT_DOUBLE: return wav;
    default: return false;
  }
}

}  // namespace

bool is_sound_name(const std::string& name) {
  const std::string kind = lowercase(std::filesystem::path(name).extension().string());
  return kind == ".wav" || kind == ".wave" || kind == ".flac";
}

Sound parse_sound(std::span<const std::uint8_t> bytes, const std::string& name) {
  // libsndfile reads many formats; nothing but these two reaches it.
  const bool is_wav = has_word(bytes, 0, "RIFF") && has_word(bytes, 8, "WAVE");
  PODIUM_REQUIRE(is_wav || has_word(bytes, 0, "fLaC"), ExitCode::kData, name,
                 ": no WAV or FLAC file; remove it, or convert it: ffmpeg -i IN OUT.wav");
  if (is_wav) require_whole_wav(bytes, name);
  Memory memory{bytes};
  SF_VIRTUAL_IO calls{length_of, seek, read, write_nothing, tell};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file(
      sf_open_virtual(&calls, SFM_READ, &info, &memory), sf_close);
  PODIUM_REQUIRE(file != nullptr, ExitCode::kData, name, ": cannot be read: ", sf_strerror(nullptr),
                 "; copy it again, or convert it: ffmpeg -i IN OUT.wav");
  PODIUM_REQUIRE(is_exact(info.format), ExitCode::kData, name,
                 ": its samples are compressed with loss, which every decoder reads differently; "
                 "convert it: ffmpeg -i IN OUT.wav");
  PODIUM_REQUIRE(info.channels >= 1 && info.channels <= kMostChannels && info.samplerate >= 1 &&
                     info.samplerate <= kMostRate,
                 ExitCode::kData, name, ": ", info.channels, " channels at ", info.samplerate,
                 " Hz; at most ", kMostChannels, " channels and ", kMostRate, " Hz are read");
  // A header may promise more than there is: no memory is taken for it.
  constexpr std::int64_t kFrames = 4096;
  std::vector<double> block(static_cast<std::size_t>(kFrames * info.channels));
  Sound sound{.rate = info.samplerate, .samples = {}};
  for (sf_count_t got = kFrames; got == kFrames;) {
    got = sf_readf_double(file.get(), block.data(), kFrames);
    const double* next = block.data();
    for (sf_count_t i = 0; i < got; ++i) {
      double sum = 0;
      for (int c = 0; c < info.channels; ++c) sum += *next++;
      PODIUM_REQUIRE(std::isfinite(sum), ExitCode::kData, name, ": the sample at ",
                     std::ssize(sound.samples), " is not finite; remove the file");
      sound.samples.push_back(sum / info.channels);
    }
  }
  PODIUM_REQUIRE(
      sf_error(file.get()) == SF_ERR_NO_ERROR && std::ssize(sound.samples) == info.frames,
      ExitCode::kData, name, ": cut short or damaged: of ", info.frames, " samples, ",
      sound.samples.size(), " can be read; copy it again");
  PODIUM_REQUIRE(!sound.samples.empty(), ExitCode::kData, name, ": has no samples; remove it");
  return sound;
}

}  // namespace podium
