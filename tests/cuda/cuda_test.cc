// Runs on the emulated GPU, beside the CPU: the same hashes, also for a run that moves between the
// two; what a GPU that fails, or that is too small, does to a run.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "tests/cli/run_podium.h"

#ifndef PODIUM_MPIRUN
#define PODIUM_MPIRUN ""
#endif

namespace podium::test {
namespace {

constexpr const char* kGpu = "cuda-emulated";

class Cuda : public CommandLine {
 protected:
  // Trains for `steps` steps in all, in this folder.
  Outcome train(const std::string& out, const std::string& backend, const std::string& steps,
                const std::map<std::string, std::string>& environment = {}) const {
    return podium(
        train_small(out, {"--backend", backend, "--steps", steps, "run.checkpoint_every_steps=2"}),
        {.environment = environment});
  }
  void expect_equal(const std::string& a, const std::string& b) const {
    const Outcome outcome = podium({"diff", a, b});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
};

TEST_F(Cuda, a_run_has_the_hashes_of_the_cpu) {
  ASSERT_EQ(train("cpu", "cpu", "6").code, 0);
  const Outcome outcome = train("gpu", kGpu, "6");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_equal("cpu", "gpu");
}

TEST_F(Cuda, a_run_that_moves_between_cpu_and_gpu_has_the_hashes_of_one_that_does_not) {
  ASSERT_EQ(train("cpu", "cpu", "8").code, 0);
  const char* const backends[] = {"cpu", kGpu, "cpu", kGpu};
  const char* const steps[] = {"2", "4", "5", "8"};
  for (int i = 0; i < 4; ++i) {
    const Outcome outcome = train("moved", backends[i], steps[i]);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  expect_equal("cpu", "moved");
}

// The order of a GPU's tensor cores, which the CPU computes, too.
TEST_F(Cuda, a_bf16_run_that_moves_to_the_cpu_has_the_hashes_of_one_that_does_not) {
  const auto run = [&](const std::string& out, const std::string& backend, const std::string& steps,
                       const std::string& more = "run.log_every_steps=1") {
    // Few images: a step of the emulation takes a second for each.
    return podium(
        train_small(out, {"--backend", backend, "--steps", steps, "precision=bf16", "batch=4",
                          "replicas=2", "test_examples=8", "run.checkpoint_every_steps=1", more}));
  };
  ASSERT_EQ(run("gpu", kGpu, "3").code, 0);
  ASSERT_EQ(run("moved", kGpu, "1").code, 0);
  const Outcome moved = run("moved", "cpu", "2");
  ASSERT_EQ(moved.code, 0) << moved.err;
  EXPECT_EQ(moved.err.find("hashes are those of neither"), std::string::npos) << moved.err;
  ASSERT_EQ(run("moved", kGpu, "3").code, 0);
  expect_equal("gpu", "moved");
  const Outcome proven = podium({"verify", "gpu", "--all", "--backend", "cpu"});
  EXPECT_EQ(proven.code, 0) << proven.err << proven.out;
  EXPECT_NE(proven.out.find("(exact bf16 hopper)"), std::string::npos) << proven.out;
  EXPECT_NE(proven.out.find("all of 3 hashes are equal"), std::string::npos) << proven.out;
  ASSERT_EQ(run("named", "cpu", "3", "bf16_order=hopper").code, 0);
  expect_equal("gpu", "named");
  const Outcome compared = podium({"compare", "moved", "named", "--json"});
  EXPECT_NE(compared.out.find("exact bf16 hopper"), std::string::npos) << compared.out;
}

TEST_F(Cuda, a_bf16_run_of_a_cpu_is_refused_by_a_gpu_that_adds_otherwise) {
  const auto run = [&](const std::string& backend, const std::string& steps) {
    return podium(train_small("cpu", {"--backend", backend, "--steps", steps, "precision=bf16"}));
  };
  ASSERT_EQ(run("cpu", "1").code, 0);
  const Outcome outcome = run(kGpu, "2");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(
      outcome.err.find("does not add BF16 products in the order amx (bf16_order), only in the "
                       "order hopper"),
      std::string::npos)
      << outcome.err;
}

TEST_F(Cuda, a_gpu_that_fails_in_any_call_leaves_a_run_that_goes_on_elsewhere) {
  ASSERT_EQ(train("cpu", "cpu", "6").code, 0);
  int after_a_checkpoint = 0;
  for (const int call : {0, 1, 200, 380, 420}) {
    const std::string out = "failed" + std::to_string(call);
    const Outcome outcome =
        train(out, kGpu, "6", {{"PODIUM_CUDA_FAIL_FROM", std::to_string(call)}});
    EXPECT_EQ(outcome.code, 2) << call << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("the GPU failed in cuda"), std::string::npos) << outcome.err;
    after_a_checkpoint += std::filesystem::exists(path(out) / "checkpoints") ? 1 : 0;
    const Outcome resumed = train(out, "cpu", "6");
    ASSERT_EQ(resumed.code, 0) << call << ": " << resumed.err;
    expect_equal("cpu", out);
  }
  EXPECT_GE(after_a_checkpoint, 2);
}

TEST_F(Cuda, a_run_takes_all_gpus_of_the_machine_or_those_that_it_is_told) {
  const std::map<std::string, std::string> three = {{"PODIUM_CUDA_DEVICES", "3"}};
  ASSERT_EQ(train("cpu", "cpu", "4").code, 0);
  const Outcome all = train("all", kGpu, "4", three);
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.err.find("placement     3 workers of 1 thread, backend cuda-emulated (3 x emul"),
            std::string::npos)
      << all.err;
  expect_equal("cpu", "all");
  const auto chosen = [&](const std::string& out, const std::string& gpus,
                          const std::string& backend = kGpu) {
    return podium(
        train_small(out, {"--backend", backend, "--steps", "4", "--gpus", gpus, "seed=0"}),
        {.environment = three});
  };
  const Outcome two = chosen("two", "2,0");
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.err.find("placement     2 workers"), std::string::npos) << two.err;
  expect_equal("cpu", "two");
  expect_refusal(chosen("none", "0,3"), 2, {"there is no GPU 3", "3 GPUs", "podium devices"});
  expect_refusal(chosen("none", "1,1"), 2, {"--gpus names GPU 1 twice"});
  expect_refusal(chosen("none", "0", "cpu"), 2, {"--gpus", "--backend cpu", "--backend cuda"});
  EXPECT_FALSE(std::filesystem::exists(path("none"))) << "a folder was left";
}

TEST_F(Cuda, a_gpu_that_falls_out_is_named_and_the_others_go_on_from_the_checkpoint) {
  ASSERT_EQ(train("cpu", "cpu", "6").code, 0);
  const Outcome outcome = train("run", kGpu, "6",
                                {{"PODIUM_CUDA_DEVICES", "3"},
                                 {"PODIUM_CUDA_FAIL_FROM", "2000"},
                                 {"PODIUM_CUDA_FAIL_GPU", "2"}});
  expect_refusal(outcome, 2, {"GPU 2 (emulation on the host) failed in cuda"});
  ASSERT_TRUE(std::filesystem::exists(path("run") / "checkpoints"));
  const Outcome resumed = train("run", kGpu, "6", {{"PODIUM_CUDA_DEVICES", "2"}});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_equal("cpu", "run");
}

TEST_F(Cuda, memory_that_does_not_suffice_ends_the_run_before_its_first_step) {
  const Outcome outcome = train("small", kGpu, "12", {{"PODIUM_CUDA_MEMORY", "18500000"}});
  expect_refusal(outcome, 4, {"of the device's memory", "fits"});
  EXPECT_FALSE(std::filesystem::exists(path("small"))) << "a folder was left";
}

TEST_F(Cuda, evaluation_and_prediction_give_the_answers_of_the_cpu) {
  ASSERT_EQ(train("run", kGpu, "1").code, 0);
  const Outcome cpu = podium({"eval", "run", "--json", "--backend", "cpu"}),
                gpu = podium({"eval", "run", "--json", "--backend", kGpu});
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  const auto answers = [](const std::string& text) {
    const std::size_t begin = text.find("\"loss\"");
    return text.substr(begin, text.find("\"parameter_hash\"") - begin);
  };
  EXPECT_EQ(answers(gpu.out), answers(cpu.out));
}

// Trains on so many ranks of the host; returns the exit code. What they print is in ranks.log.
class CudaRanks : public Cuda {
 protected:
  void SetUp() override {
    Cuda::SetUp();
    if (std::string(PODIUM_MPIRUN).empty()) GTEST_SKIP() << "this build has no MPI";
    ASSERT_EQ(train("cpu", "cpu", "4").code, 0);
  }
  int train_on(int ranks, const std::string& out, const std::string& environment) {
    std::string words = cat(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
        "PODIUM_RECIPES='",
        (std::filesystem::current_path() / "recipes").string(), "' ", environment, " && cd '",
        path("").string(), "' && '", PODIUM_MPIRUN, "' -n ", ranks, " '", PODIUM_PROGRAM, "'");
    for (const std::string& word :
         train_small(out, {"--backend", kGpu, "--steps", "4", "run.checkpoint_every_steps=2"}))
      words += " '" + word + "'";
    return WEXITSTATUS(std::system((words + " > ranks.log 2>&1").c_str()));
  }
};

TEST_F(CudaRanks, that_share_a_gpu_have_the_hashes_of_one_cpu) {
  ASSERT_EQ(train_on(2, "ranks", ""), 0) << read("ranks.log");
  EXPECT_NE(read("ranks.log").find("shares its GPU with another rank"), std::string::npos);
  expect_equal("cpu", "ranks");
}

TEST_F(CudaRanks, with_a_gpu_each_use_nccl_and_have_the_hashes_of_one_cpu) {
  for (const int ranks : {2, 3}) {
    const std::string out = cat("ranks", ranks);
    ASSERT_EQ(train_on(ranks, out, "PODIUM_CUDA_DEVICES=4"), 0) << read("ranks.log");
    EXPECT_NE(read("ranks.log").find("messages      NCCL 2.28.9 between GPUs"), std::string::npos);
    expect_equal("cpu", out);
  }
}

TEST_F(CudaRanks, say_what_nccl_says_when_it_fails_and_the_run_goes_on_elsewhere) {
  EXPECT_NE(train_on(2, "ranks", "PODIUM_CUDA_DEVICES=2 PODIUM_NCCL_FAIL_FROM=5"), 0);
  const std::string log = read("ranks.log");
  EXPECT_NE(log.find("NCCL failed in"), std::string::npos) << log;
  EXPECT_NE(log.find("on host"), std::string::npos) << log;
  ASSERT_EQ(train("ranks", "cpu", "4").code, 0);
  expect_equal("cpu", "ranks");
}

}  // namespace
}  // namespace podium::test
