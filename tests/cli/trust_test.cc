// Proving runs on the command line: `podium verify`, `podium seal`, and audits.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "tests/cli/run_podium.h"
#include "train/loop/checkpoint.h"

namespace podium::test {
namespace {

namespace fs = std::filesystem;

// Sixteen steps with four checkpoints.
class Trust : public CommandLine {
 protected:
  void train(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = train_small(
        out, {"run.checkpoint_every_steps=4", "run.checkpoints_kept=100", "--workers", "2"});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome trained = podium(words);
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  nlohmann::json verify(const std::string& run, const std::vector<std::string>& more,
                        int code = 0) {
    std::vector<std::string> words = {"verify", run, "--json", "--workers", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, code) << outcome.err << outcome.out;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
  void replace(const std::string& file, const std::string& before, const std::string& after) const {
    std::string text = read(file);
    const std::size_t at = text.find(before);
    ASSERT_NE(at, std::string::npos) << before << " in " << text;
    write(file, text.replace(at, before.size(), after));
  }
  // The hash of a step's line, with another last digit.
  void change_hash(const std::string& run, int step) const {
    const std::string text = read(run + "/hashes.jsonl");
    const std::string line = "{\"step\": " + std::to_string(step) + ", \"hash\": \"";
    const std::size_t at = text.find(line) + line.size();
    const std::string hash = text.substr(at, 16);
    std::string other = hash;
    other.back() = hash.back() == '0' ? '1' : '0';
    replace(run + "/hashes.jsonl", hash, other);
  }
};

TEST_F(Trust, every_step_of_a_run_is_proven_on_another_placement_and_backend) {
  train("run");
  const auto all = verify("run", {"--all"});
  EXPECT_EQ(all["equal"], true);
  EXPECT_EQ(all["recomputed"], 16);
  EXPECT_EQ(all["hashes_compared"], 16);
  EXPECT_EQ(all["starting_points"], 4);
  EXPECT_EQ(all["proven_checkpoints"], 4);
  EXPECT_EQ(all["chance_of_seeing_one_percent"], 1.0);
  const auto drawn = verify("run", {"--steps", "3", "--seed", "5", "--backend", "reference"});
  EXPECT_EQ(drawn["drawn"].size(), 3U);
  EXPECT_EQ(drawn["equal"], true);
  EXPECT_EQ(verify("run", {"--steps", "3", "--seed", "5"})["drawn"], drawn["drawn"]);
  const Outcome text = podium({"verify", "run", "--budget", "1h"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.err.find("all 16 steps: 16 steps to compute from 4 starting points on cpu"),
            std::string::npos)
      << text.err;
  EXPECT_NE(text.out.find("all of 16 hashes are equal, and 4 checkpoints in every tensor"),
            std::string::npos)
      << text.out;
}

TEST_F(Trust, a_line_of_hashes_that_was_changed_is_named) {
  train("run");
  change_hash("run", 6);
  const auto found = verify("run", {"--all"}, 1);
  ASSERT_EQ(found["wrong"].size(), 1U) << found;
  EXPECT_EQ(found["wrong"][0]["step"], 6);
  EXPECT_EQ(found["wrong"][0]["from"], 4);
  EXPECT_NE(found["wrong"][0]["note"].get<std::string>().find("the line in hashes.jsonl is wrong"),
            std::string::npos)
      << found;
  // Drawn steps find it as often as they must: from step 4 on, 6, 7 and 8 tell.
  for (int seed = 0; seed < 6; ++seed) {
    const auto one =
        podium({"verify", "run", "--steps", "1", "--seed", std::to_string(seed), "--json"});
    const auto json = nlohmann::json::parse(one.out);
    const int step = json["drawn"][0];
    EXPECT_EQ(one.code, step >= 6 && step <= 8 ? 1 : 0) << json;
  }
}

TEST_F(Trust, a_checkpoint_of_another_training_is_found_with_its_tensors) {
  train("run");
  train("other", {"optimizer.learning_rate=0.02"});
  const std::string name = "/checkpoints/step-00000008";
  fs::remove_all(path("run" + name));
  fs::copy(path("other" + name), path("run" + name), fs::copy_options::recursive);
  const auto found = verify("run", {"--all"}, 1);
  ASSERT_EQ(found["wrong"].size(), 2U) << found;
  EXPECT_EQ(found["wrong"][0]["step"], 8);
  EXPECT_EQ(found["wrong"][0]["from"], 4);
  EXPECT_EQ(found["wrong"][0]["checkpoint"], 8);
  EXPECT_GT(found["wrong"][0]["tensors"].size(), 5U);
  EXPECT_GT(found["wrong"][0]["tensors"][0]["most_ulps"], 0);
  EXPECT_NE(found["wrong"][1]["note"].get<std::string>().find("are not those of hashes.jsonl"),
            std::string::npos);
  EXPECT_NE(podium({"verify", "run", "--all"}).out.find("MAX ULPS"), std::string::npos);
}

TEST_F(Trust, a_run_that_was_made_with_other_mathematics_is_wrong_from_its_first_step) {
  train("run");
  replace("run/recipe.toml", "seed = 0", "seed = 1");
  fs::remove_all(path("run/checkpoints"));
  const auto found = verify("run", {"--steps", "1", "--seed", "2"}, 1);
  EXPECT_EQ(found["wrong"][0]["step"], 1) << found;
}

TEST_F(Trust, single_replicas_are_proven_where_there_is_witness) {
  train("run", {"run.witness=true"});
  const auto found = verify("run", {"--replicas", "2"});
  EXPECT_EQ(found["equal"], true);
  EXPECT_EQ(found["replicas_computed"], 6);  // of steps 5, 9 and 13; after 16 there is none
  train("plain");
  expect_refusal(podium({"verify", "plain", "--replicas", "1"}), 3,
                 {"plain", "no checkpoint of it has witness", "run.witness=true"});
}

TEST_F(Trust, what_cannot_be_verified_is_said) {
  train("run");
  expect_refusal(podium({"verify", "nothing"}), 3, {"nothing"});
  expect_refusal(podium({"verify", "run", "--budget", "0.0001s"}), 2,
                 {"more than the budget", "--steps"});
  expect_refusal(podium({"verify", "run", "--steps", "1", "--all"}), 2, {"--all"});
  expect_refusal(podium({"verify", "run", "--signers", "x"}), 2, {"podium seal RUN"});
  expect_refusal(podium({"verify", "run", "--budget", "soon"}), 2, {"soon"});
  // Its own data are not there.
  write("book.txt", std::string(4000, 'a') + std::string(4000, 'b'));
  const Outcome trained = podium({"train", "text:book.txt", "steps=4", "--out", "text"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  fs::rename(path("book.txt"), path("moved.txt"));
  expect_refusal(podium({"verify", "text", "--steps", "1"}), 3, {"book.txt"});
  EXPECT_EQ(
      podium({"verify", "text", "--steps", "1", "data.path=" + path("moved.txt").string()}).code,
      0);
}

TEST_F(Trust, a_run_of_another_kind_is_compared_within_a_tolerance_and_said_to_be) {
  train("run");
  // As if a device whose sums are its own had trained it.
  std::vector<Checkpoint> checkpoints;
  for (const CheckpointPlace& place : list_checkpoints(path("run")))
    checkpoints.push_back(load_checkpoint(place.folder));
  const auto rewrite = [&](float factor) {
    for (Checkpoint& checkpoint : checkpoints) {
      checkpoint.metadata[kKindKey] = "cuda bf16 on sm_120";
      if (checkpoint.step == 12)
        for (NamedTensor& one : checkpoint.tensors)
          for (float& value : one.tensor.f32()) value *= factor;
      checkpoint.metadata.erase("parameter_hash");
      write_checkpoint(path("run"), checkpoint, 100);
    }
  };
  rewrite(1 + 0x1p-20F);
  const auto found = verify("run", {"--all"});
  EXPECT_EQ(found["exact"], false);
  EXPECT_EQ(found["hashes_compared"], 0);
  ASSERT_EQ(found["distances"].size(), 4U) << found;
  for (const auto& distance : found["distances"]) {
    EXPECT_GT(distance["allowed"], 0);
    EXPECT_LT(distance["allowed"], 0.05);
  }
  EXPECT_EQ(found["distances"][0]["share"], 0);
  EXPECT_GT(found["distances"][2]["share"], 0);
  const Outcome text = podium({"verify", "run", "--all"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.err.find("the run was computed as cuda bf16 on sm_120, whose bits exact fp32 does "
                          "not have"),
            std::string::npos)
      << text.err;
  EXPECT_NE(text.out.find("These are not equal bits"), std::string::npos) << text.out;
  rewrite(1.01F);
  EXPECT_EQ(verify("run", {"--all"}, 1)["equal"], false);
  const Outcome wrong = podium({"verify", "run", "--all"});
  EXPECT_NE(wrong.out.find("from step 8 to 12, the parameters end elsewhere"), std::string::npos)
      << wrong.out;
  expect_refusal(podium({"verify", "run", "--replicas", "1"}), 3, {"single replicas"});
}

TEST_F(Trust, a_run_of_another_contract_is_refused) {
  train("run");
  std::vector<Checkpoint> checkpoints;
  for (const CheckpointPlace& place : list_checkpoints(path("run")))
    checkpoints.push_back(load_checkpoint(place.folder));
  for (Checkpoint& checkpoint : checkpoints) {
    checkpoint.metadata[kContractKey] = "1";
    write_checkpoint(path("run"), checkpoint, 100);
  }
  expect_refusal(podium({"verify", "run", "--all"}), 3,
                 {"numerical contract 1", "environment.json names its version"});
}

TEST_F(Trust, a_receipt_finds_every_byte_that_changes) {
  train("run");
  ASSERT_EQ(podium({"seal", "run"}).code, 0);
  EXPECT_EQ(podium({"verify", "run/receipt.json"}).code, 0);
  expect_refusal(podium({"seal", "run"}), 2, {"receipt.json", "--force"});
  fs::copy(path("run/receipt.json"), path("receipt.json"));
  EXPECT_EQ(podium({"verify", "receipt.json", "--run", "run"}).code, 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path("run"))) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && entry.path().string().find("tensorboard") == std::string::npos &&
        name != ".lock" && !name.starts_with("receipt") && !name.ends_with(".html"))
      files.push_back(entry.path());
  }
  EXPECT_GE(files.size(), 12U);
  for (const fs::path& file : files) {
    const std::string name = fs::relative(file, path("")).string();
    const std::string text = read(name);
    std::string changed = text;
    changed[changed.size() / 2] ^= 1;
    write(name, changed);
    const Outcome found = podium({"verify", "receipt.json", "--run", "run"});
    EXPECT_EQ(found.code, 1) << name;
    EXPECT_NE(found.out.find(fs::relative(file, path("run")).string() + ": its contents"),
              std::string::npos)
        << found.out;
    write(name, text);
  }
  fs::remove(path("run/metrics.jsonl"));
  EXPECT_NE(
      podium({"verify", "receipt.json", "--run", "run"}).out.find("metrics.jsonl: it is missing"),
      std::string::npos);
  train("other", {"seed=3"});
  const Outcome other = podium({"verify", "receipt.json", "--run", "other"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("root: "), std::string::npos) << other.out;
  write("receipt.json", "{}");
  expect_refusal(podium({"verify", "receipt.json", "--run", "run"}), 3, {"it is no receipt"});
}

TEST_F(Trust, a_receipt_is_signed_by_ssh_and_the_signature_checked) {
  const std::string key = path("key").string();
  if (std::system(("ssh-keygen -q -t ed25519 -N '' -C me -f " + key + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "there is no ssh-keygen";
  train("run");
  const Outcome sealed = podium({"seal", "run", "--sign", key});
  ASSERT_EQ(sealed.code, 0) << sealed.err;
  write("signers", "me@example.org " + read("key.pub"));
  const Outcome good = podium({"verify", "run/receipt.json", "--signers", "signers"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("me@example.org"), std::string::npos) << good.out;
  expect_refusal(podium({"verify", "run/receipt.json", "--signers", "signers", "--identity",
                         "you@example.org"}),
                 3, {"you@example.org"});
  replace("run/receipt.json", "\"steps\": 16", "\"steps\": 17");
  expect_refusal(podium({"verify", "run/receipt.json", "--signers", "signers"}), 3,
                 {"the signature is not one of me@example.org"});
  fs::remove(path("run/receipt.json.sig"));
  expect_refusal(podium({"verify", "run/receipt.json", "--signers", "signers"}), 3,
                 {"it is missing", "--sign"});
  expect_refusal(podium({"seal", "run", "--force", "--sign", path("no-key").string()}), 2,
                 {"did not sign", "no-key"});
}

TEST_F(Trust, an_audited_run_is_the_run_that_is_not_audited) {
  train("plain");
  train("audited", {"run.audit_every_steps=3"});
  EXPECT_EQ(read("plain/hashes.jsonl"), read("audited/hashes.jsonl"));
  EXPECT_EQ(podium({"diff", "plain", "audited"}).code, 0);
}

}  // namespace
}  // namespace podium::test
