#include "data/sounds/sounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "data/sounds/sound_test_util.h"
#include "files/test_files.h"

namespace podium {
namespace {

using test_files::Bytes;

Bytes bytes_in(const std::string& text) { return {text.begin(), text.end()}; }
Bytes sample_file(const std::string& name) {
  return test_files::read_file(std::string(PODIUM_DATA_CORPUS) + "/sound/" + name);
}
std::string refused(const Bytes& bytes) {
  return user_error(ExitCode::kData, [&] { parse_sound(bytes, "a.wav"); });
}

TEST(SoundFile, wav_and_flac_of_the_same_samples_are_the_same) {
  const Sound wav = parse_sound(sample_file("tone.wav"), "tone.wav");
  EXPECT_EQ(wav.rate, 8000);
  ASSERT_EQ(wav.samples.size(), 64U);
  EXPECT_EQ(wav.samples[1], std::trunc(8000 * std::sin(0.3)) / 32768);
  EXPECT_EQ(parse_sound(sample_file("tone.flac"), "tone.flac").samples, wav.samples);
  EXPECT_EQ(parse_sound(sample_file("float.wav"), "float.wav").samples, wav.samples);
  // Two channels are their mean: this file's left and right are neighbours in the other.
  const Sound stereo = parse_sound(sample_file("stereo.wav"), "stereo.wav");
  ASSERT_EQ(stereo.samples.size(), 32U);
  EXPECT_EQ(stereo.samples[3], (wav.samples[6] + wav.samples[7]) / 2);
}

TEST(SoundFile, what_is_wrong_is_said_with_its_remedy) {
  EXPECT_CONTAINS(refused(bytes_in("hello")), "a.wav: no WAV or FLAC file");
  EXPECT_CONTAINS(refused({}), "no WAV or FLAC file");
  EXPECT_CONTAINS(refused(bytes_in("RIFF1234WAVEnothing")), "a.wav: ");
  Bytes cut = sample_file("tone.wav");
  cut.resize(cut.size() - 10);
  EXPECT_CONTAINS(refused(cut),
                  "cut short, or its header was never completed: it announces 128 more bytes at "
                  "byte 36, and has 118");
  cut = sample_file("tone.flac");
  cut.resize(cut.size() - 20);
  EXPECT_CONTAINS(refused(cut), "a.wav: ");
  EXPECT_CONTAINS(refused(sample_file("adpcm.wav")), "compressed with loss");
  EXPECT_CONTAINS(refused(bytes_in(wav_bytes({}, 8000))), "no samples");
  Bytes infinite = sample_file("float.wav");
  const float value = std::numeric_limits<float>::infinity();
  std::memcpy(infinite.data() + infinite.size() - 8, &value, 4);
  EXPECT_CONTAINS(refused(infinite), "the sample at 62 is not finite");
  EXPECT_TRUE(is_sound_name("a/b.WAV") && is_sound_name("b.flac") && !is_sound_name("a.mp3"));
}

TEST(Resampling, keeps_tones_that_the_new_rate_can_have_and_no_others) {
  for (const auto& [from, to] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {44100, 16000}, {8000, 16000}, {16000, 8000}, {11025, 8000}}) {
    const Sound sound = resampled({from, tone(440, from, from / 4)}, to);
    EXPECT_EQ(sound.rate, to);
    const std::vector<double> expected = tone(440, to, to / 4);
    ASSERT_NEAR(static_cast<double>(sound.samples.size()), static_cast<double>(expected.size()), 1);
    for (std::size_t i = 100; i + 100 < expected.size(); ++i)
      ASSERT_NEAR(sound.samples[i], expected[i], 2e-3) << from << " " << to << " " << i;
  }
  const Sound gone = resampled({44100, tone(6000, 44100, 11025)}, 8000);
  for (std::size_t i = 100; i + 100 < gone.samples.size(); ++i)
    ASSERT_NEAR(gone.samples[i], 0, 2e-3);
  const std::vector<double> same = tone(440, 8000, 100);
  EXPECT_EQ(resampled({8000, same}, 8000).samples, same);
}

// By the definition, in the machine's own functions.
std::vector<double> plain_frame(const std::vector<double>& samples, std::size_t begin,
                                std::int64_t rate, std::int64_t mels) {
  const std::int64_t window = rate / 40;
  std::int64_t size = 1;
  while (size < 2 * window) size *= 2;
  std::vector<double> power;
  for (std::int64_t bin = 0; bin <= size / 2; ++bin) {
    std::complex<double> sum;
    for (std::int64_t i = 0; i < window; ++i) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(i);
      const double hann = 0.5 - 0.5 * std::cos(turn / static_cast<double>(window));
      sum += hann * samples[begin + static_cast<std::size_t>(i)] *
             std::polar(1.0, -turn * static_cast<double>(bin) / static_cast<double>(size));
    }
    power.push_back(std::norm(sum));
  }
  const auto mel = [](double hertz) { return 1127 * std::log(1 + hertz / 700); };
  const double low = mel(20), high = mel(static_cast<double>(rate) / 2);
  const auto edge = [&](std::int64_t i) {
    const double at = low + (high - low) * static_cast<double>(i) / static_cast<double>(mels + 1);
    return 700 * (std::exp(at / 1127) - 1);
  };
  std::vector<double> frame;
  for (std::int64_t m = 0; m < mels; ++m) {
    double energy = 0;
    for (std::size_t bin = 0; bin < power.size(); ++bin) {
      const double at =
          static_cast<double>(bin) * static_cast<double>(rate) / static_cast<double>(size);
      const double up = (at - edge(m)) / (edge(m + 1) - edge(m)),
                   down = (edge(m + 2) - at) / (edge(m + 2) - edge(m + 1));
      energy += std::max(0.0, std::min(up, down)) * power[bin];
    }
    frame.push_back(std::log(energy + 1e-6));
  }
  return frame;
}

TEST(MelFrames, are_those_of_the_definition) {
  const std::int64_t rate = 8000, mels = 23;
  std::vector<double> samples = tone(700, rate, 1000);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] += 0.1 * sin_2pi(0.013 * static_cast<double>(i * i % 977));
  const MelFrames mel({.rate = rate, .mels = mels});
  const std::vector<float> frames = mel.of({rate, samples});
  ASSERT_EQ(frames.size(), static_cast<std::size_t>(mels * (1 + (1000 - 200) / 80)));
  for (std::size_t frame = 0; frame < frames.size() / mels; ++frame) {
    const std::vector<double> expected = plain_frame(samples, 80 * frame, rate, mels);
    for (std::size_t m = 0; m < mels; ++m)
      ASSERT_NEAR(frames[frame * mels + m], expected[m], 1e-4) << frame << " " << m;
  }
}

TEST(MelFrames, have_the_same_bits_on_every_machine) {
  const MelFrames mel({.rate = 8000, .mels = 40});
  const std::vector<float> frames = mel.of({11025, tone(431, 11025, 4000)});
  EXPECT_EQ(hash_text(hash_bytes(
                {reinterpret_cast<const std::uint8_t*>(frames.data()), 4 * frames.size()})),
            "3c204dae28f69ebc");
}

TEST(MelFrames, a_short_sound_has_one_frame_and_too_many_bands_are_refused) {
  const MelFrames mel({.rate = 8000, .mels = 10});
  EXPECT_EQ(mel.of({8000, {0.5, -0.5}}).size(), 10U);
  const std::vector<float> silent = mel.of({8000, std::vector<double>(300)});
  EXPECT_EQ(silent, std::vector<float>(20, MelFrames::silence()));
  EXPECT_CONTAINS(user_error(ExitCode::kData, [] { MelFrames({.rate = 1000, .mels = 512}); }),
                  "data.mels = 512: at 1000 Hz, the band around ");
}

class SoundFolder : public testing::Test {
 protected:
  SoundFolder() {
    text_.context = 30;
    sounds_.mel = {.rate = 8000, .mels = 12};
  }
  std::string path() const { return (folder_ / "tones").string(); }
  Sounds open(const std::string& path) const {
    return open_sounds(path, sounds_, text_, 0.25, 0, "");
  }
  std::string refusal(const std::string& path) const {
    return user_error(ExitCode::kData, [&] { open(path); });
  }
  TestFolder folder_;
  TextOptions text_;
  SoundOptions sounds_;
};

TEST_F(SoundFolder, and_an_archive_of_it_are_the_same_recordings) {
  put_tones(folder_ / "tones", 8);
  put_text(folder_ / "tones" / "notes.txt", "not a sound");
  const Sounds sounds = open(path());
  EXPECT_EQ(to_text(sounds.train->fields()), "\"frames\" f32[30, 12], \"label\" i32[] below 2");
  EXPECT_EQ(sounds.train->fields()[1].words, (std::vector<std::string>{"high", "low"}));
  EXPECT_EQ(sounds.train->examples(), 12);
  EXPECT_EQ(sounds.held_out->examples(), 4);
  EXPECT_TRUE(sounds.notes.empty());
  std::vector<std::pair<std::string, Bytes>> members;
  for (const char* label : {"low", "high"})  // in another order
    for (int i = 8; i-- > 0;) {
      const std::string name = cat(label, "/", i, ".wav");
      members.emplace_back(name, test_files::read_file(path() + "/" + name));
    }
  const std::string archive = (folder_ / "tones.tar.gz").string();
  test_files::write_file(archive, test_files::tar_gz(members));
  const Sounds packed = open(archive);
  EXPECT_EQ(packed.train->identity({}), sounds.train->identity({}));
  EXPECT_EQ(packed.held_out->identity({}), sounds.held_out->identity({}));
}

TEST_F(SoundFolder, training_recordings_are_normalised_and_short_ones_end_in_silence) {
  put_tones(folder_ / "tones", 8);
  const Sounds sounds = open(path());
  const Field frames = sounds.train->fields()[0];
  std::vector<double> sums(12);
  double count = 0;
  for (std::int64_t i = 0; i < sounds.train->examples(); ++i) {
    std::vector<float> values(30 * 12);
    std::int32_t label = -1;
    sounds.train->read(i, nullptr, {values.data(), &label});
    EXPECT_EQ(sounds.train->example_name(i).starts_with(label == 0 ? "high/" : "low/"), true);
    const auto silence = [&](std::size_t m) {
      return static_cast<float>((static_cast<double>(MelFrames::silence()) - frames.mean[m]) /
                                frames.deviation[m]);
    };
    std::size_t length = 30;
    while (values[12 * length - 1] == silence(11)) --length;
    EXPECT_LT(length, 30U);
    for (std::size_t at = 0; at < values.size(); ++at) {
      if (at < 12 * length)
        sums[at % 12] += static_cast<double>(values[at]);
      else
        ASSERT_EQ(values[at], silence(at % 12));
    }
    count += static_cast<double>(length);
  }
  for (const double sum : sums) EXPECT_NEAR(sum / count, 0, 1e-5);
  // What a run predicts is read as what it was trained on.
  SoundReader reader(sounds.train->fields(), sounds_.mel, false);
  reader.read(path() + "/" + sounds.train->example_name(3));
  std::vector<float> own(30 * 12), again(30 * 12);
  std::int32_t label = 0;
  sounds.train->read(3, nullptr, {own.data(), &label});
  reader.rows().read(0, nullptr, {again.data()});
  EXPECT_EQ(again, own);
}

TEST_F(SoundFolder, files_are_held_out_by_a_pattern_or_from_another_folder) {
  std::filesystem::create_directories(folder_ / "tones");
  for (const char* name : {"a_tom_0", "a_tom_1", "b_tom_0", "b_ann_0", "a_ann_0"})
    put_text(folder_ / "tones" / (std::string(name) + ".wav"),
             wav_bytes(tone(name[0] == 'a' ? 300 : 900, 8000, 1000), 8000));
  sounds_.held_out_files = "*_ann_*";
  const Sounds sounds = open(path());
  ASSERT_EQ(sounds.held_out->examples(), 2);
  EXPECT_EQ(sounds.held_out->example_name(0), "a_ann_0.wav");
  EXPECT_EQ(sounds.train->fields()[1].words, (std::vector<std::string>{"a", "b"}));
  sounds_.held_out_files = "*_bob_*";
  EXPECT_CONTAINS(refusal(path()), "matches no recording, as a_ann_0.wav");
  sounds_.held_out_files = "*";
  EXPECT_CONTAINS(refusal(path()), "matches every recording");
  sounds_.held_out_files = "b_*";
  EXPECT_CONTAINS(refusal(path()), "every recording of the class \"b\" is held out");

  sounds_.held_out_files = "";
  std::filesystem::create_directories(folder_ / "others");
  put_text(folder_ / "others" / "b_x.wav", wav_bytes(tone(900, 8000, 1000), 8000));
  text_.held_out_path = (folder_ / "others").string();
  EXPECT_EQ(open(path()).train->examples(), 5);
  EXPECT_EQ(open(path()).held_out->examples(), 1);
  put_text(folder_ / "others" / "c_x.wav", wav_bytes(tone(900, 8000, 1000), 8000));
  EXPECT_CONTAINS(refusal(path()), "no recording to train on has its class \"c\"; known are a, b");
}

TEST_F(SoundFolder, what_is_wrong_is_said_with_file_and_remedy) {
  EXPECT_CONTAINS(refusal((folder_ / "nowhere").string()), "was not found");
  std::filesystem::create_directories(folder_ / "tones" / "a");
  EXPECT_CONTAINS(refusal(path()), "has no .wav or .flac file");
  put_text(folder_ / "tones" / "a" / "1.wav", wav_bytes(tone(300, 8000, 4000), 8000));
  EXPECT_CONTAINS(refusal(path()), "1.wav: its class is not known: put the recordings of each");
  put_text(folder_ / "tones" / "2.wav", wav_bytes(tone(300, 8000, 4000), 8000));
  EXPECT_CONTAINS(refusal(path()), "2.wav: lies beside the folders of classes");
  std::filesystem::create_directories(folder_ / "tones" / "b");
  std::filesystem::rename(folder_ / "tones" / "2.wav", folder_ / "tones" / "b" / "2.wav");
  EXPECT_CONTAINS(refusal(path()), "every recording of the class \"");
  put_text(folder_ / "tones" / "a" / "3.wav", wav_bytes(tone(300, 8000, 8000), 8000));
  put_text(folder_ / "tones" / "b" / "3.wav", wav_bytes(tone(300, 8000, 4000), 8000));
  text_.held_out_path = path();
  EXPECT_CONTAINS(refusal(path()),
                  "4 recordings of 4 longer than data.context = 30; the longest, ");
  EXPECT_CONTAINS(refusal(path()), "3.wav, has 98 frames. Cut them at their ends");
  text_.too_long = kCutIfTooLong;
  ASSERT_EQ(open(path()).notes.size(), 2U);
  EXPECT_CONTAINS(open(path()).notes[0], "4 recordings of 4 in ");
  put_text(folder_ / "tones" / "b" / "3.wav", "no sound");
  EXPECT_CONTAINS(refusal(path()), "b/3.wav: no WAV or FLAC file");
}

}  // namespace
}  // namespace podium
