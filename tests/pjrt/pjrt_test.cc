// The command with plugins of PJRT: XLA's own for the CPU, and those that must be refused.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/pjrt/cpu_plugin_test_util.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class PjrtCommand : public CommandLine {
 protected:
  static std::string fake(int kind) {
    return std::string(FAKE_PLUGINS) + "/libfake_plugin_" + std::to_string(kind) + ".so";
  }
  Outcome train(const std::string& plugin, std::map<std::string, std::string> environment = {},
                const std::vector<std::string>& more = {}) const {
    environment["PODIUM_PJRT_PLUGIN"] = plugin;
    environment.emplace("PODIUM_PJRT_CACHE", "");
    std::vector<std::string> words = {"--backend", "pjrt"};
    words.insert(words.end(), more.begin(), more.end());
    return podium(train_small("run", words), {.environment = environment});
  }
  // It was refused before there was a run.
  void expect_refused(const Outcome& outcome, const std::vector<std::string>& parts) const {
    expect_refusal(outcome, 2, parts);
    EXPECT_FALSE(std::filesystem::exists(path("run")));
  }
};

TEST_F(PjrtCommand, without_a_plugin_is_told_to_name_one) {
  expect_refused(podium(train_small("run", {"--backend", "pjrt"})),
                 {"PODIUM_PJRT_PLUGIN", "docs/tpu.md"});
}

TEST_F(PjrtCommand, a_file_that_is_no_plugin_is_refused) {
  expect_refused(train("nowhere.so"), {"nowhere.so", "no such file", "--backend cpu"});
  write("text.so", "no library");
  expect_refused(train("./text.so"), {"text.so", "cannot be loaded on this machine"});
  expect_refused(train(fake(1)), {"has no GetPjrtApi"});
}

TEST_F(PjrtCommand, a_plugin_of_another_api_is_refused) {
  expect_refused(train(fake(2)), {"has version 1.", "the first numbers must be equal"});
  expect_refused(train(fake(3)), {"lacks PJRT_LoadedExecutable_Execute"});
}

TEST_F(PjrtCommand, a_plugin_without_devices_or_in_use_is_refused) {
  expect_refused(train(fake(4)), {"has no device for it"});
  expect_refused(train(fake(5)), {"opened no client", "the device is in use by process 7"});
}

TEST_F(PjrtCommand, a_program_is_compiled_by_a_plugin_that_is_named_and_can) {
  expect_refusal(podium({"show", "mnist", "--compile-for", "v5e:2x4"}), 2,
                 {"--compile-for", "scripts/install-dependencies.sh tpu"});
  expect_refusal(podium({"show", "mnist", "--compile-for", "v5e:2x4"},
                        {.environment = {{"PODIUM_PJRT_PLUGIN", fake(3)}}}),
                 2, {"lacks PJRT_LoadedExecutable_Execute"});
}

TEST_F(PjrtCommand, stablehlo_of_a_recipe_keeps_the_precision_of_fp32) {
  const Outcome outcome = podium({"show", "mnist", "--stablehlo"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.find("module @mnist {"), 0U);
  EXPECT_NE(outcome.out.find("stablehlo.convolution"), std::string::npos);
  EXPECT_EQ(outcome.out.find("DEFAULT"), std::string::npos);
}

class PjrtCpu : public PjrtCommand {
 protected:
  void SetUp() override {
    if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
    unsetenv("PODIUM_PJRT_PLUGIN");
  }
  std::string hashes(const std::string& run) const { return read(run + "/hashes.jsonl"); }
};

TEST_F(PjrtCpu, is_listed_with_its_devices) {
  const auto json =
      nlohmann::json::parse(podium({"devices", "--json"},
                                   {.environment = {{"PODIUM_PJRT_PLUGIN", PODIUM_PJRT_CPU_PLUGIN},
                                                    {"PODIUM_PJRT_OPTIONS", "cpu_device_count=3"}}})
                                .out);
  EXPECT_EQ(json["pjrt"]["platform"], "cpu");
  EXPECT_EQ(json["pjrt"]["devices"].size(), 3U);
}

TEST_F(PjrtCpu, options_that_are_none_are_refused) {
  expect_refused(train(PODIUM_PJRT_CPU_PLUGIN, {{"PODIUM_PJRT_OPTIONS", "many"}}),
                 {"PODIUM_PJRT_OPTIONS", "\"many\" is not an option"});
  expect_refused(train(PODIUM_PJRT_CPU_PLUGIN, {{"PODIUM_PJRT_REPLICAS", "both"}}),
                 {"PODIUM_PJRT_REPLICAS=both", "write in-turn or side-by-side"});
}

TEST_F(PjrtCpu, a_step_that_does_not_fit_is_found_when_it_is_compiled) {
  const Outcome outcome = train(fake(12), {{"FAKE_PJRT_REAL", PODIUM_PJRT_CPU_PLUGIN}});
  expect_refusal(outcome, 4, {"Its message: Used 18.2G of 15.7G", "try replicas="});
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

// Its message has the plugin's words; the run goes on from its checkpoint, and ends as one that was
// never disturbed.
TEST_F(PjrtCpu, a_plugin_that_fails_or_crashes_in_a_step_leaves_a_run_that_goes_on) {
  ASSERT_EQ(train(PODIUM_PJRT_CPU_PLUGIN).code, 0);
  const std::string expected = hashes("run");
  std::filesystem::rename(path("run"), path("whole"));
  const auto failing_at = [](const char* execution) {
    return std::map<std::string, std::string>{{"FAKE_PJRT_REAL", PODIUM_PJRT_CPU_PLUGIN},
                                              {"FAKE_PJRT_FAILS", execution}};
  };
  const Outcome failed = train(fake(6), failing_at("9"));
  EXPECT_EQ(failed.code, 2);
  EXPECT_NE(failed.err.find("Its message: the interconnect is down"), std::string::npos)
      << failed.err;
  EXPECT_NE(failed.err.find("resumes from the last checkpoint"), std::string::npos) << failed.err;
  EXPECT_EQ(train(fake(7), failing_at("4")).code, 128 + SIGABRT);
  EXPECT_EQ(train(fake(11), failing_at("0")).code, 128 + SIGABRT) << "where a client is created";
  ASSERT_EQ(train(PODIUM_PJRT_CPU_PLUGIN).code, 0);
  EXPECT_EQ(hashes("run"), expected);
}

TEST_F(PjrtCpu, a_second_start_loads_what_the_first_compiled) {
  std::string log;  // a line for each program that was compiled or loaded
  const auto started = [&](int kind) {
    std::filesystem::remove_all(path("run"));
    std::filesystem::remove(path("log"));
    const Outcome outcome = train(fake(kind),
                                  {{"FAKE_PJRT_REAL", PODIUM_PJRT_CPU_PLUGIN},
                                   {"FAKE_PJRT_LOG", path("log").string()},
                                   {"PODIUM_PJRT_CACHE", path("programs").string()}},
                                  {"epochs=1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    log = read("log");
    return outcome.err;
  };
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  started(8);
  const std::string expected = hashes("run");
  const std::size_t compiled = count(log, "compile");
  EXPECT_EQ(count(log, "load"), 0U);

  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(path("programs")))
    files.push_back(file.path());
  ASSERT_GE(files.size(), 2U);
  const auto size = std::filesystem::file_size(files[0]);
  std::filesystem::resize_file(files[0], size - 1);
  EXPECT_EQ(count(started(8), files[0].filename().string() + ": is damaged"), 1U);
  EXPECT_EQ(count(log, "load"), files.size() - 1);
  EXPECT_EQ(count(log, "compile"), compiled - (files.size() - 1));
  EXPECT_EQ(std::filesystem::file_size(files[0]), size) << "it was not written anew";
  EXPECT_EQ(hashes("run"), expected);

  std::filesystem::remove_all(path("programs"));
  EXPECT_EQ(count(started(9), "does not hand out compiled programs (programs stay here)"), 1U);
  EXPECT_EQ(count(log, "compile"), compiled);
  EXPECT_FALSE(std::filesystem::exists(path("programs")));
  EXPECT_EQ(hashes("run"), expected);
}

}  // namespace
}  // namespace podium::test
