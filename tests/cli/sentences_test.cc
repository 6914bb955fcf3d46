// Sentences on the command line: from a file to predictions.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class SentenceCommand : public CommandLine {
 protected:
  SentenceCommand() {
    std::string rows = "text,label\n";
    for (int i = 0; i < 300; ++i)
      rows += cat(i % 2 == 0 ? "a fine" : "so dull a", " film number", i % 7, " of w", i % 31,
                  i % 2 == 0 ? ",good\n" : ",bad\n");
    write("rows.csv", rows);
  }
};

TEST_F(SentenceCommand, sentences_are_trained_on_evaluated_predicted_and_shown) {
  const Outcome trained =
      podium({"train", "sentences:rows.csv", "epochs=4", "network.width=16", "network.hidden=8",
              "data.context=8", "optimizer.learning_rate=0.01", "--out", "run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("sentences/s"), std::string::npos) << trained.err;
  const auto json = nlohmann::json::parse(podium({"eval", "run", "--json"}).out);
  EXPECT_EQ(json["accuracy"], 1.0) << json;
  EXPECT_EQ(read("run/report.html").find("images"), std::string::npos);

  const Outcome texts = podium(
      {"predict", "run", "--text", "what a fine film", "--text", "dull , dull , dull", "--json"});
  ASSERT_EQ(texts.code, 0) << texts.err;
  const auto answers = nlohmann::json::parse(texts.out);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["text"], "what a fine film");
  EXPECT_EQ(answers[0]["name"], "good");
  EXPECT_EQ(answers[1]["name"], "bad");
  const Outcome table = podium({"predict", "run", "--text", "a fine film"});
  EXPECT_NE(table.out.find("TEXT"), std::string::npos) << table.out;

  write("new.txt", "a fine film\nso dull\n");
  const std::string lines = podium({"predict", "run", "new.txt"}).out;
  EXPECT_EQ(lines.find("text,predicted,probability\na fine film,good,"), 0U) << lines;
  write("new.csv", "id,text\n7,\"fine, fine film\"\n");
  ASSERT_EQ(podium({"predict", "run", "new.csv", "--out", "out.csv"}).code, 0);
  EXPECT_EQ(read("out.csv").find("id,text,predicted,probability\n7,\"fine, fine film\",good,"), 0U)
      << read("out.csv");

  const Outcome foreign = podium({"predict", "run", "--text", "привет", "--text", "a fine film"});
  EXPECT_EQ(foreign.code, 0);
  EXPECT_NE(foreign.err.find("1 text of 2, the first in line 1, without a word"), std::string::npos)
      << foreign.err;
  EXPECT_EQ(table.err.find("without a word"), std::string::npos) << table.err;

  expect_refusal(podium({"predict", "run"}), 2, {"--text"});
  expect_refusal(podium({"predict", "run", "new.csv", "--text", "a"}), 2, {"leave out the file"});
  expect_refusal(podium({"predict", "run", "--text", "a b c d e f g h i"}), 3,
                 {"longer than data.context = 8"});
  expect_refusal(podium({"predict", "run", "--text", " "}), 3, {"the text is empty"});
  expect_refusal(podium({"eval", "run", "--text", "new.txt"}), 2, {"sentences"});
}

TEST_F(SentenceCommand, what_does_not_fit_is_refused) {
  expect_refusal(podium({"train", "sentences:nowhere.csv"}), 3, {"nowhere.csv was not found"});
  expect_refusal(podium({"train", "sentences:rows.csv", "target=kind"}), 3, {"\"kind\""});
  expect_refusal(podium({"train", "sentences:rows.csv", "model=gpt"}), 2, {"network"});
  expect_refusal(podium({"train", "table:rows.csv", "model=text-cnn"}), 2, {"tokens"});
}

}  // namespace
}  // namespace podium::test
