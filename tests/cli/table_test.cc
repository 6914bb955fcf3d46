// Tables on the command line: from a file to predictions.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class TableCommand : public CommandLine {
 protected:
  TableCommand() {
    std::string rows = "size,colour,price,kind\n";
    for (int i = 0; i < 200; ++i)
      rows += cat(i % 40, i % 3 == 0 ? ",red," : ",blue,", 3 * (i % 40) + (i % 3 == 0 ? 20 : 0),
                  i % 40 < 20 ? ",\"small, very\"\n" : ",large\n");
    write("rows.csv", rows);
  }
  static std::vector<std::string> train(const std::string& target, const std::string& out,
                                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train",
                                      "table:rows.csv",
                                      "target=" + target,
                                      "epochs=30",
                                      "optimizer.learning_rate=0.01",
                                      "--out",
                                      out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(TableCommand, a_table_is_trained_on_evaluated_predicted_and_shown) {
  const Outcome trained = podium(train("price", "run", {"data.ignore=[\"kind\"]"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("r2 0.9"), std::string::npos) << trained.out;
  EXPECT_NE(trained.err.find("rows/s"), std::string::npos) << trained.err;
  for (const Outcome& one : {trained, podium({"eval", "run"})}) {
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_EQ(one.out.find("image"), std::string::npos) << one.out;
    EXPECT_EQ(one.out.find("accuracy"), std::string::npos) << one.out;
  }
  const auto json = nlohmann::json::parse(podium({"eval", "run", "--json"}).out);
  EXPECT_GT(json["r2"], 0.9) << json;
  EXPECT_LT(json["mean_absolute_error"], 10) << json;
  EXPECT_LT(json["mean_squared_error"], 200) << json;
  const std::string page = read("run/report.html");
  EXPECT_NE(page.find("rows/s"), std::string::npos);
  EXPECT_EQ(page.find("images"), std::string::npos);

  write("new.csv", "colour,name,size\nred,\"a \"\"b\"\"\",10\nblue,c,30\n");
  const Outcome predicted = podium({"predict", "run", "new.csv", "--out", "out.csv"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const std::string text = read("out.csv");
  EXPECT_EQ(text.find("colour,name,size,predicted\nred,\"a \"\"b\"\"\",10,"), 0U) << text;
  EXPECT_NEAR(std::stod(text.substr(text.find(",10,") + 4)), 50, 15) << text;
  EXPECT_NEAR(std::stod(text.substr(text.find(",30,") + 4)), 90, 15) << text;
  EXPECT_EQ(podium({"predict", "run", "new.csv"}).out, text);
  expect_refusal(podium({"predict", "run", "new.csv", "--out", "out.csv"}), 2, {"--force"});
  expect_refusal(podium({"predict", "run", "new.csv", "new.csv"}), 2, {"name one file"});
}

TEST_F(TableCommand, classes_have_their_words_in_predictions) {
  ASSERT_EQ(podium(train("kind", "run", {"data.ignore=[\"price\"]"})).code, 0);
  const auto json = nlohmann::json::parse(podium({"eval", "run", "--json"}).out);
  EXPECT_GT(json["accuracy"], 0.9) << json;
  write("new.csv", "size,colour\n2,red\n38,blue\n");
  const std::string text = podium({"predict", "run", "new.csv"}).out;
  EXPECT_EQ(text.find("size,colour,predicted,probability\n2,red,\"small, very\","), 0U) << text;
  EXPECT_NE(text.find("38,blue,large,"), std::string::npos) << text;
}

TEST_F(TableCommand, what_does_not_fit_is_refused_with_its_place) {
  expect_refusal(podium(train("prize", "run")), 3, {"\"prize\"", "the nearest is \"price\""});
  expect_refusal(podium({"train", "table:nowhere.csv"}), 3, {"nowhere.csv was not found"});
  expect_refusal(podium(train("price", "run", {"augment.flip=true"})), 2, {"`augment.flip`"});
  write("bad.csv", "a,b\n1,2\n2,x\n3,4\n");
  expect_refusal(podium({"train", "table:bad.csv", "target=a"}), 3,
                 {"bad.csv: line 3, column \"b\": \"x\" is no number"});
  // Other rows are other data: a run does not go on with them.
  ASSERT_EQ(podium(train("price", "run", {"--steps", "4"})).code, 0);
  std::string rows = read("rows.csv");
  rows.replace(rows.find("\n5,"), 3, "\n6,");
  write("rows.csv", rows);
  expect_refusal(podium(train("price", "run")), 3, {"other data", "rows.csv"});
}

}  // namespace
}  // namespace podium::test
