// Recordings on the command line: from a folder to predictions.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sounds/sound_test_util.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class SoundCommand : public CommandLine {
 protected:
  SoundCommand() { put_tones(path("tones"), 60); }
};

TEST_F(SoundCommand, recordings_are_trained_on_evaluated_predicted_and_shown) {
  const Outcome trained = podium(
      {"train", "sounds:tones", "epochs=3", "network.width=12", "data.context=16", "data.rate=4000",
       "data.mels=16", "data.held_out=0.2", "optimizer.learning_rate=0.01", "--out", "run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("recordings/s"), std::string::npos) << trained.err;
  const auto json = nlohmann::json::parse(podium({"eval", "run", "--json"}).out);
  EXPECT_EQ(json["accuracy"], 1.0) << json;
  // The page shows recordings as pictures, with the names of their files.
  const std::string page = read("run/report.html");
  EXPECT_NE(page.find("data:image/png;base64,"), std::string::npos);
  EXPECT_NE(page.find(": high/"), std::string::npos);

  // At another rate, and one that is no sound: it is named, and the others are answered.
  write("new.wav", wav_bytes(tone(310, 11025, 2000), 11025));
  write("bad.wav", "nothing");
  const Outcome predicted = podium({"predict", "run", "new.wav", "tones/high/3.wav", "--json"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const auto answers = nlohmann::json::parse(predicted.out);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["recording"], "new.wav");
  EXPECT_EQ(answers[0]["name"], "low");
  EXPECT_EQ(answers[1]["name"], "high");
  const Outcome mixed = podium({"predict", "run", "bad.wav", "new.wav", "nowhere.wav"});
  EXPECT_EQ(mixed.code, 3);
  EXPECT_NE(mixed.err.find("bad.wav: no WAV or FLAC file"), std::string::npos) << mixed.err;
  EXPECT_NE(mixed.err.find("nowhere.wav"), std::string::npos) << mixed.err;
  EXPECT_NE(mixed.out.find("new.wav"), std::string::npos) << mixed.out;

  write("long.wav", wav_bytes(tone(310, 4000, 4000), 4000));
  expect_refusal(podium({"predict", "run", "long.wav"}), 3, {"longer than data.context = 16"});
  expect_refusal(podium({"predict", "run", "--text", "hello"}), 2, {"sentences"});
  expect_refusal(podium({"predict", "run", "new.wav", "--out", "x.csv"}), 2, {"--out"});
}

TEST_F(SoundCommand, what_does_not_fit_is_refused) {
  expect_refusal(podium({"train", "sounds:nowhere"}), 3, {"nowhere was not found"});
  expect_refusal(podium({"train", "sounds:tones", "data.context=3"}), 3,
                 {"120 recordings of 120 longer", "data.too_long=cut"});
  expect_refusal(podium({"train", "sounds:tones", "model=text-cnn"}), 2, {"tokens"});
  expect_refusal(podium({"train", "sounds:tones", "data.held_out_files=x", "data.held_out=0.5"}), 2,
                 {"`data.held_out` has no effect beside `data.held_out_files`"});
  expect_refusal(podium({"train", "sounds:tones", "data.mels=500"}), 3, {"use fewer bands"});
  expect_refusal(podium({"train", "folder:tones"}), 3, {"no pictures"});
}

}  // namespace
}  // namespace podium::test
