// Data and runs in object storage, on the command line.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "files/test_server.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class Storage : public CommandLine {
 protected:
  void SetUp() override {
    if (server_.port() == 0) GTEST_SKIP() << "needs python3";
  }
  // As on a machine of this name.
  RunOptions on(const std::string& machine) const {
    const std::string server = cat("http://127.0.0.1:", server_.port());
    return {.environment = {{"AWS_ENDPOINT_URL_S3", server},
                            {"AWS_ACCESS_KEY_ID", "AKIDTEST"},
                            {"AWS_SECRET_ACCESS_KEY", "secret/test"},
                            {"AWS_REGION", "us-east-1"},
                            {"STORAGE_EMULATOR_HOST", server},
                            {"XDG_CACHE_HOME", path(machine).string()}}};
  }

  const test_files::Server server_{"src/store/store_test_server.py"};
};

TEST_F(Storage, a_run_that_is_killed_goes_on_on_other_machines_with_equal_hashes) {
  ASSERT_EQ(podium(train_small("plain", {"run.checkpoint_every_steps=2"})).code, 0);
  for (const char* store : {"s3", "gs"}) {
    SCOPED_TRACE(store);
    const std::string run = std::string(store) + "://data/runs/a";
    const auto train = train_small(run, {"run.checkpoint_every_steps=2"});
    for (int kills = 0; kills < 4; ++kills) {
      const pid_t process = start(train, on(cat("machine-", kills)));
      std::this_thread::sleep_for(std::chrono::milliseconds(150 + 130 * kills));
      ::kill(process, SIGKILL);
      wait_for(process);
    }
    const Outcome last = podium(train, on("last"));
    ASSERT_EQ(last.code, 0) << last.err;
    EXPECT_NE(last.out.find(", in " + run), std::string::npos) << last.out;
    const Outcome difference = podium({"diff", run, "plain"}, on("reader"));
    EXPECT_EQ(difference.code, 0) << difference.out << difference.err;
    EXPECT_NE(difference.out.find("the parameters are equal after each of 16"), std::string::npos)
        << difference.out;
    const Outcome evaluated = podium({"eval", run}, on("reader"));
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_EQ(evaluated.out.find(run + ", step 16: "), 0U) << evaluated.out;
  }
}

TEST_F(Storage, a_second_process_takes_a_run_over_and_the_first_says_so) {
  const std::string run = "s3://data/runs/b";
  const std::vector<std::string> more = {"run.checkpoint_every_steps=1", "epochs=400"};
  const pid_t first = start(train_small(run, more), on("one"));
  // Once it has published a checkpoint.
  for (int turn = 0; turn < 200; ++turn) {
    if (podium({"eval", run}, on("reader")).code == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::vector<std::string> second = train_small(run, more);
  second.insert(second.end(), {"--steps", "2"});
  const Outcome taken = podium(second, on("two"));
  EXPECT_NE(taken.err.find("was last written by "), std::string::npos) << taken.err;
  const Outcome refused = wait_for(first);
  EXPECT_EQ(refused.code, 3) << refused.err;
  EXPECT_NE(refused.err.find("another process has taken this folder over"), std::string::npos)
      << refused.err;
}

TEST_F(Storage, data_of_a_store_give_the_hashes_of_the_same_files) {
  std::string rows = "a,b,c\n";
  for (int i = 0; i < 120; ++i) rows += cat(i, ",", i * i % 17, ",", 3 * i + i * i % 17, "\n");
  write("rows.csv", rows);
  Outcome put = podium({"train", "table:rows.csv", "target=c", "epochs=2", "--out", "local"});
  ASSERT_EQ(put.code, 0) << put.err;
  // A program of somebody else puts it there.
  const std::string command =
      cat("curl --silent --fail -X POST --data-binary @", path("rows.csv").string(),
          " 'http://127.0.0.1:", server_.port(), "/_put?bucket=public&key=d/rows.csv'");
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "needs curl";
  for (const std::string& place :
       {std::string("s3://public/d/rows.csv"), std::string("gs://public/d/rows.csv"),
        cat("http://127.0.0.1:", server_.port(), "/public/d/rows.csv")}) {
    SCOPED_TRACE(place);
    const Outcome trained =
        podium({"train", "table:" + place, "target=c", "epochs=2", "--out", "remote", "--fresh"},
               on("one"));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(read("remote/hashes.jsonl"), read("local/hashes.jsonl"));
  }
  expect_refusal(podium({"train", "table:s3://public/none.csv", "target=c"}, on("one")), 3,
                 {"s3://public/none.csv", "there is no object of this name"});
  expect_refusal(podium({"train", "table:s3://none/rows.csv", "target=c"}, on("one")), 3,
                 {"there is no bucket \"none\""});
  expect_refusal(podium({"eval", "s3://public/none"}, on("one")), 3, {"check the address"});
}

}  // namespace
}  // namespace podium::test
