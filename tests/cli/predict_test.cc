// `podium predict`: what it answers, and what it does with files that it cannot read.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/pictures/formats/image_file.h"
#include "tests/cli/run_podium.h"
#include "train/loop/checkpoint.h"

namespace podium::test {
namespace {

class Predict : public CommandLine {
 protected:
  // A grey PNG picture, height x width.
  void write_png(const std::string& name, const std::string& grey, std::int64_t height = 28,
                 std::int64_t width = 28) const {
    std::vector<std::uint8_t> colours;
    for (const char pixel : grey)
      colours.insert(colours.end(), 3, static_cast<std::uint8_t>(pixel));
    const std::vector<std::uint8_t> file = png_bytes(colours, height, width);
    write(name, std::string(file.begin(), file.end()));
  }
};

std::string picture(int seed) {
  std::string pixels;
  for (int i = 0; i < 784; ++i) pixels += static_cast<char>((i % 28 * (i / 28) * seed) % 200);
  return pixels;
}

TEST_F(Predict, gives_logits_probabilities_and_the_classes_asked_for) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  write_png("x.png", picture(1));
  write_png("y.png", picture(3));
  const Outcome outcome =
      podium({"predict", "a", "x.png", "y.png", "x.png", "--json", "--top", "3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0], json[2]) << "one picture gives one answer";
  for (const auto& answer : json) {
    ASSERT_EQ(answer["top"].size(), 3u);
    ASSERT_EQ(answer["logits"].size(), 10u);
    const std::vector<double> p = answer["probabilities"], logits = answer["logits"];
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    for (std::size_t k = 0; k < 10; ++k) EXPECT_NEAR(p[k], std::exp(logits[k]) / sum, 1e-12);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(p) - p.begin());
    EXPECT_EQ(answer["class"], best);
    EXPECT_EQ(answer["top"][0]["class"], best);
    EXPECT_EQ(answer["top"][0]["probability"], answer["probability"]);
    EXPECT_EQ(answer["top"][0]["logit"], answer["logits"][best]);
    EXPECT_GE(answer["top"][1]["probability"], answer["top"][2]["probability"]);
  }
}

TEST_F(Predict, text_names_as_many_classes_as_asked_for) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  write_png("x.png", picture(1));
  const auto marks = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"predict", "a", "x.png"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("1 picture: read in"), std::string::npos) << outcome.err;
    return std::count(outcome.out.begin(), outcome.out.end(), '%');
  };
  EXPECT_EQ(marks({}), 2);
  EXPECT_EQ(marks({"--top", "1"}), 1);
  EXPECT_EQ(marks({"--top", "4"}), 4);
  EXPECT_EQ(marks({"--top", "99"}), 10);
  expect_refusal(podium({"predict", "a", "x.png", "--top", "0"}), 2, {"--top"});
}

TEST_F(Predict, bad_files_among_good_ones_are_named_and_the_others_answered) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  write_png("x.png", picture(1));
  write_png("small.png", "abcd", 2, 2);
  write("old.pgm", "P5\n28 28\n255\n" + picture(1));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const std::vector<std::string> words = {"predict",   "a",       "x.png", "no.png",
                                          "small.png", "old.pgm", "pipe",  "x.png"};
  const Outcome text = podium(words);
  EXPECT_EQ(text.code, 3);
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 3) << text.out;
  for (const char* part :
       {"no.png", "small.png: the picture is 2 x 2 pixels", "old.pgm: PBM, PGM and PPM pictures",
        "pipe: is a folder, pipe or device", "give a PNG or IDX file",
        "4 not classified, of 6 pictures"}) {
    EXPECT_NE(text.err.find(part), std::string::npos) << part << "\n" << text.err;
  }
  std::vector<std::string> with_json = words;
  with_json.push_back("--json");
  const Outcome outcome = podium(with_json);
  EXPECT_EQ(outcome.code, 3);
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json.size(), 6u);
  EXPECT_EQ(json[0], json[5]);
  for (const std::size_t i : {1, 2, 3, 4}) {
    EXPECT_EQ(json[i]["image"], words[2 + i]);
    EXPECT_NE(json[i]["error"].get<std::string>().find(words[2 + i]), std::string::npos);
    EXPECT_FALSE(json[i].contains("class"));
  }
  expect_refusal(podium({"predict", "a", "no.png"}), 3, {"no.png"});
}

// A picture and the same at twice the contrast are one to a network that sees them standardised.
TEST_F(Predict, normalises_as_the_recipe_of_the_run_says) {
  std::string faint, strong;
  for (int i = 0; i < 784; ++i) {
    const int pixel = i % 28 * (i / 28) % 120;
    faint += static_cast<char>(pixel);
    strong += static_cast<char>(2 * pixel);
  }
  write_png("faint.png", faint);
  write_png("strong.png", strong);
  const auto difference = [&](const std::string& run, const std::vector<std::string>& more) {
    EXPECT_EQ(podium(train_small(run, more)).code, 0);
    const auto json =
        nlohmann::json::parse(podium({"predict", run, "faint.png", "strong.png", "--json"}).out);
    double most = 0;
    for (std::size_t k = 0; k < 10; ++k) {
      const double a = json[0]["probabilities"][k], b = json[1]["probabilities"][k];
      most = std::max(most, std::abs(a - b));
    }
    return most;
  };
  EXPECT_GT(difference("plain", {}), 1e-3);
  EXPECT_LT(difference("standard", {"normalise.name=per-image"}), 1e-5);
}

TEST_F(Predict, a_network_that_holds_nan_is_an_error_and_no_class) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  write_png("x.png", picture(1));
  Checkpoint checkpoint = load_checkpoint(list_checkpoints(path("a")).back().folder);
  for (NamedTensor& tensor : checkpoint.tensors)
    if (tensor.name == "fc2.weight") tensor.tensor.f32()[7] = std::nanf("");
  checkpoint.step += 1;
  write_checkpoint(path("a"), checkpoint, 2);
  expect_refusal(podium({"predict", "a", "x.png"}), 3,
                 {"\"fc2.weight\" contains a value that is not finite"});
}

}  // namespace
}  // namespace podium::test
