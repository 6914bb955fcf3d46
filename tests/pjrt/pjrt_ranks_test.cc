// Plugins whose client is one of several processes: podium train under mpirun.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/pjrt/cpu_plugin_test_util.h"
#include "tests/ranks/mpirun_test_util.h"

namespace podium::test {
namespace {

class PjrtUnderMpirun : public MpirunTest {
 protected:
  void SetUp() override {
    MpirunTest::SetUp();
    if (IsSkipped()) return;
    if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
  }
  std::vector<std::string> train(const std::string& out) const {
    return {PODIUM_PROGRAM,
            "train",
            "glyphs",
            "train_examples=64",
            "test_examples=16",
            "batch=16",
            "replicas=2",
            "run.hash_every_steps=1",
            "--backend",
            "pjrt",
            "--workers",
            "1",
            "--steps",
            "2",
            "--rank-timeout",
            "20",
            "--out",
            (folder_ / out).string()};
  }
  // Of the client of several processes.
  Environment environment(const std::string& failing = "") const {
    Environment all = {{"PODIUM_PJRT_PLUGIN", std::string(FAKE_PLUGINS) + "/libfake_plugin_10.so"},
                       {"PODIUM_PJRT_OPTIONS", "process=rank,processes=ranks"},
                       {"PODIUM_PJRT_CACHE", (folder_ / "programs").string()},
                       {"FAKE_PJRT_REAL", PODIUM_PJRT_CPU_PLUGIN},
                       {"FAKE_PJRT_LOG", (folder_ / "log").string()}};
    if (!failing.empty()) all["FAKE_PJRT_FAILS"] = failing;
    return all;
  }
  std::string text(const std::string& file) const { return file_text(folder_ / file); }
};

TEST_F(PjrtUnderMpirun, a_client_of_two_processes_shares_its_keys_over_mpi) {
  const Outcome outcome = run_program(2, train("two"), environment());
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  const std::string log = text("log");
  EXPECT_EQ(count(log, "process 0 of 2\n"), 1) << log;
  EXPECT_EQ(count(log, "process 1 of 2\n"), 1) << "a client was created twice\n" << log;
  Environment alone = environment();
  alone["PODIUM_PJRT_PLUGIN"] = PODIUM_PJRT_CPU_PLUGIN;
  alone["PODIUM_PJRT_OPTIONS"] = "";
  ASSERT_EQ(run_program(0, train("one"), alone).code, 0);
  EXPECT_NE(text("one/hashes.jsonl"), "");
  EXPECT_EQ(text("two/hashes.jsonl"), text("one/hashes.jsonl"));
}

TEST_F(PjrtUnderMpirun, a_process_whose_client_fails_ends_the_wait_of_the_others) {
  for (const char* failing : {"0", "1"}) {
    const Outcome outcome = run_program(2, train("run"), environment(failing));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.out.find("the chip of this process is broken"), std::string::npos)
        << outcome.out;
    EXPECT_LT(outcome.seconds, 15) << "the others waited for its keys";
    EXPECT_EQ(outcome.left, 0);
  }
}

}  // namespace
}  // namespace podium::test
