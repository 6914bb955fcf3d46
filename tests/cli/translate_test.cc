// Translation on the command line: from a table of pairs to translations.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class TranslateCommand : public CommandLine {
 protected:
  // Up to four colours, of which each has a word in the other language.
  TranslateCommand() {
    const std::vector<std::pair<std::string, std::string>> words = {
        {"red", "rot"}, {"green", "gruen"}, {"blue", "blau"}, {"white", "weiss"}};
    std::string rows = "text\tde\n", english, german;
    std::uint32_t state = 1;
    for (int i = 0; i < 340; ++i) {
      std::string source, target;
      for (int n = 1 + i % 4; n > 0; --n) {
        state = state * 1664525 + 1013904223;
        const auto& [one, other] = words[state >> 30];
        source += (source.empty() ? "" : " ") + one;
        target += (target.empty() ? "" : " ") + other;
      }
      rows += cat(source, "\t", target, "\n");
      english += source + "\n", german += target + "\n";
    }
    write("rows.tsv", rows), write("a.en", english), write("a.de", german);
  }
};

TEST_F(TranslateCommand, pairs_are_trained_on_evaluated_and_translated) {
  const Outcome trained =
      podium({"train", "pairs:rows.tsv", "epochs=40", "batch=32", "network.width=32",
              "network.layers=1", "network.heads=2", "data.context=6", "data.vocabulary=50",
              "optimizer.learning_rate=0.01", "schedule.warmup=0", "--out", "run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("tokens/s"), std::string::npos) << trained.err;
  const auto json = nlohmann::json::parse(podium({"eval", "run", "--json"}).out);
  EXPECT_LT(json["perplexity"], 1.5) << json;
  // Of a language of four words, of which few sentences have four tokens.
  EXPECT_GT(json["bleu"], 50.0) << json;
  EXPECT_NE(trained.out.find(", BLEU "), std::string::npos) << trained.out;
  const std::string page = read("run/report.html");
  for (const char* part : {"BLEU of translations", "<h2>Translations</h2>", "<h2>Attention</h2>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(read("run/metrics.jsonl").find("\"test_bleu\": "), std::string::npos);

  write("new.en", "blue red\nwhite\n");
  const Outcome lines = podium({"translate", "run", "new.en"});
  EXPECT_EQ(lines.out, "blau rot\nweiss\n") << lines.err;
  EXPECT_EQ(podium({"translate", "run", "new.en", "--beam", "1", "--workers", "1"}).out, lines.out);
  const Outcome one = podium({"translate", "run", "--text", "red green", "--json"});
  const auto answer = nlohmann::json::parse(one.out);
  EXPECT_EQ(answer["translation"], "rot gruen") << one.err;
  EXPECT_LT(answer["score"], 0.0);

  expect_refusal(podium({"translate", "run"}), 2, {"nothing to translate"});
  expect_refusal(podium({"translate", "run", "new.en", "--text", "red"}), 2, {"two things"});
  expect_refusal(podium({"translate", "run", "--text", " "}), 3, {"sentence 1 is empty"});
  expect_refusal(podium({"translate", "run", "--text", "red red red red red red"}), 3,
                 {"has 7 tokens with its end", "data.context = 6"});
  expect_refusal(podium({"translate", "run", "nowhere.en"}), 3, {"nowhere.en"});
  expect_refusal(podium({"predict", "run", "new.en"}), 2, {"podium translate"});
  expect_refusal(podium({"generate", "run"}), 2, {"pairs"});
}

TEST_F(TranslateCommand, two_files_are_one_set_and_what_does_not_fit_is_refused) {
  const Outcome trained =
      podium({"train", "pairs:a.en", "data.target_path=a.de", "steps=2", "epochs=0", "batch=32",
              "network.width=8", "network.layers=1", "network.heads=2", "data.context=6",
              "schedule.warmup=0", "--out", "run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  // Elsewhere, they are the same.
  write("b.de", read("a.de"));
  EXPECT_EQ(podium({"train", "pairs:a.en", "data.target_path=b.de", "steps=2", "epochs=0",
                    "batch=32", "network.width=8", "network.layers=1", "network.heads=2",
                    "data.context=6", "schedule.warmup=0", "--out", "run"})
                .code,
            0);
  expect_refusal(podium({"train", "pairs:a.en"}), 3, {"data.target_path=FILE"});
  write("short.de", "rot\n");
  expect_refusal(podium({"train", "pairs:a.en", "data.target_path=short.de"}), 3,
                 {"a.en has 340 lines", "has 1"});
  write("table.csv", "size,price\n1,2\n2,4\n3,6\n4,8\n");
  expect_refusal(podium({"train", "table:table.csv", "model=transformer", "network.heads=2",
                         "batch=2", "replicas=1"}),
                 2, {"source"});
}

}  // namespace
}  // namespace podium::test
