// A text from the file to what a network writes.
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "data/text/bpe_test_util.h"
#include "files/file_io.h"
#include "files/safetensors.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class OwnText : public CommandLine {
 protected:
  static std::string verse(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += i % 3 == 0 ? "the sea the sea\n" : "a sail, a gull\n";
    return text;
  }
  std::string done(const std::vector<std::string>& words) const {
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  static std::vector<std::string> train(const std::string& data, const std::string& out,
                                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train",
                                      data,
                                      "data.tokenizer=chars",
                                      "data.context=16",
                                      "network.layers=1",
                                      "network.heads=2",
                                      "network.width=16",
                                      "optimizer.learning_rate=0.01",
                                      "batch=8",
                                      "steps=60",
                                      "run.checkpoint_every_steps=10",
                                      "--out",
                                      out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The line with the hash.
  static std::string parameters_in(const std::string& out) {
    const std::size_t at = out.find("parameters ");
    return at == std::string::npos ? "none" : out.substr(at, out.find(',', at) - at);
  }
};

TEST_F(OwnText, is_trained_on_stopped_resumed_evaluated_and_continued) {
  write("sea.txt", verse(300));
  const std::string whole = done(train("text:sea.txt", "a", {"--workers", "1"}));
  EXPECT_CONTAINS(whole, "perplexity");
  EXPECT_CONTAINS(whole, "tokens");
  EXPECT_EQ(podium(train("text:sea.txt", "b", {"--workers", "2", "--steps", "25"})).code, 0);
  EXPECT_EQ(parameters_in(done(train("text:sea.txt", "b", {"--workers", "4"}))),
            parameters_in(whole));
  EXPECT_CONTAINS(done({"eval", "a"}), "perplexity");
  const std::vector<std::string> words = {
      "generate", "a", "--prompt", "the ", "--tokens", "30", "--seed", "3", "--temperature", "0.5"};
  const std::string text = done(words);
  EXPECT_EQ(text.find("the "), 0u) << text;
  EXPECT_EQ(text.size(), 4u + 30 + 1);
  EXPECT_EQ(done(words), text);
  // As many characters as the file has different ones, and no others.
  EXPECT_EQ(text.find_first_not_of(verse(2)), std::string::npos) << text;
}

TEST_F(OwnText, an_lstm_reads_it_as_streams_and_is_evaluated_on_another) {
  write("sea.txt", verse(300));
  write("other.txt", verse(40));
  const auto trained = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", "lstm.toml", "--out", out};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  write("lstm.toml",
        "model = \"lstm\"\nbatch = 8\nreplicas = 4\nsteps = 60\n[network]\nlayers = 1\n"
        "width = 16\n[data]\nname = \"text\"\npath = \"sea.txt\"\ntokenizer = \"chars\"\n"
        "context = 16\norder = \"streams\"\nheld_out_path = \"other.txt\"\n[optimizer]\n"
        "learning_rate = 2\nclip_norm = 1\n");
  const std::string whole = done(trained("a", {"--workers", "1"}));
  EXPECT_EQ(podium(trained("b", {"--workers", "2", "--steps", "25"})).code, 0);
  EXPECT_EQ(parameters_in(done(trained("b", {"--workers", "4"}))), parameters_in(whole));
  const auto perplexity = [&](const std::vector<std::string>& command) {
    const std::string told = done(command);
    const std::size_t at = told.find("perplexity ");
    EXPECT_NE(at, std::string::npos) << told;
    return told.substr(at, told.find(' ', at + 11) - at);
  };
  // From zeros on, by whichever command: the state of the training's replicas is not read.
  EXPECT_EQ(perplexity({"eval", "a", "--text", "other.txt"}), perplexity({"eval", "a"}));
  // Longer than a window, from the state alone.
  const std::string text = done({"generate", "a", "--prompt", "the sea the sea\na sail, ",
                                 "--tokens", "40", "--temperature", "0"});
  EXPECT_EQ(text.find("the sea the sea\na sail, "), 0u) << text;
  EXPECT_EQ(text.find_first_not_of(verse(2)), std::string::npos) << text;
}

TEST_F(OwnText, a_tokenizer_goes_with_the_run) {
  write("sea.txt", verse(600));
  std::filesystem::create_directory(path("tokens"));
  write("tokens/encoder.json", spelled_vocabulary("\"he\": 256, \"<|endoftext|>\": 257"));
  write("tokens/vocab.bpe", "#version: 0.2\nh e\n");
  const auto of = [](const std::string& data, const std::string& out) {
    return train(data, out, {"data.tokenizer=tokens/", "--steps", "30"});
  };
  const std::string whole = done(of("text:sea.txt", "a"));
  // The same text in shards, with the same tokenizer: a run of its own, since shards are visited in
  // an order without a table.
  EXPECT_CONTAINS(done({"data", "tokenize", "sea.txt", "--tokenizer", "tokens/", "--out", "shards",
                        "--held-out", "0.1"}),
                  "2 shards; ");
  EXPECT_CONTAINS(done({"data", "tokenize", "sea.txt", "--tokenizer", "tokens/", "--out", "shards",
                        "--held-out", "0.1"}),
                  "2 shards, of which 2 were there");
  EXPECT_CONTAINS(done(of("text:shards", "b")), "perplexity");
  // Neither is needed any more.
  std::filesystem::remove_all(path("tokens"));
  for (const char* run : {"a", "b"}) {
    EXPECT_TRUE(std::filesystem::exists(path(run) / "tokenizer/encoder.json"));
    EXPECT_CONTAINS(done({"generate", run, "--prompt", "the ", "--tokens", "5"}), "the ");
    EXPECT_CONTAINS(done({"eval", run, "--text", "sea.txt"}), " bits per byte, ");
  }
  EXPECT_CONTAINS(done({"eval", "a"}), " bits per byte, ");
  expect_refusal(podium({"eval", "a", "--text", "none.txt"}), 3, {"none.txt was not found"});
  expect_refusal(podium(of("text:sea.txt", "c")), 3, {"the tokenizer tokens/ was not found"});
  expect_refusal(podium(train("text:sea.txt", "c", {"data.tokenizer=letters"})), 2,
                 {"`data.tokenizer` = \"letters\" is none; it is bytes, chars, words"});
}

TEST_F(OwnText, shards_that_were_begun_are_finished_by_the_same_command) {
  std::filesystem::create_directory(path("tokens"));
  write("tokens/encoder.json", spelled_vocabulary("\"he\": 256, \"<|endoftext|>\": 257"));
  write("tokens/vocab.bpe", "#version: 0.2\nh e\n");
  std::string text;
  while (text.size() < (std::size_t{12} << 20)) text += verse(5000);
  write("sea.txt", text);
  const auto of = [](const std::string& out) {
    return std::vector<std::string>{"data",    "tokenize",  "sea.txt", "--tokenizer",
                                    "tokens/", "--out",     out,       "--shard-mib",
                                    "1",       "--threads", "1"};
  };
  const pid_t process = start(of("begun"));
  for (int i = 0; i < 1000 && !std::filesystem::exists(path("begun") / "train_00000.npy"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(process, SIGTERM);
  const Outcome stopped = wait_for(process);
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_CONTAINS(stopped.err, "stopped on request");
  expect_refusal(podium(train("text:begun", "x", {"data.tokenizer=bytes"})), 3,
                 {"`podium data tokenize` was stopped; call it again"});
  EXPECT_CONTAINS(done(of("begun")), " were there; ");
  done(of("whole"));
  int shards = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path("whole"))) {
    if (entry.path().extension() != ".npy") continue;
    ++shards;
    EXPECT_EQ(read_text(entry.path()), read_text(path("begun") / entry.path().filename()));
  }
  EXPECT_EQ(shards, 13);
}

TEST_F(OwnText, what_is_wrong_with_it_is_said_before_the_first_step) {
  write("empty.txt", "");
  write("short.txt", "a few words");
  write("latin.txt", verse(100) + "caf\xE9" + verse(100));
  write("sea.txt", verse(100));
  const auto refused = [&](const std::vector<std::string>& words, int code,
                           const std::vector<std::string>& parts) {
    expect_refusal(podium(words), code, parts);
  };
  refused(train("text:empty.txt", "x"), 3, {"empty.txt is empty"});
  refused(train("text:short.txt", "x"), 3, {"short.txt", "data.context = 16"});
  refused(train("text:latin.txt", "x"), 3, {"latin.txt: line 101", "data.tokenizer=bytes"});
  refused(train("text:none.txt", "x"), 3, {"none.txt was not found", "--data-dir"});
  refused(train("text:sea.txt", "x", {"network.heads=3"}), 2, {"network.heads = 3"});
  refused(train("text:sea.txt", "x", {"augment.shift=2"}), 2, {"`augment.shift` is for images"});
  refused(train("text:sea.txt", "x", {"batch=400"}), 2, {"`batch` = 400"});
  EXPECT_EQ(podium(train("text:sea.txt", "run", {"--steps", "12"})).code, 0);
  refused({"generate", "run", "--prompt", "Zoo"}, 3, {"the prompt", "\"Z\""});
  refused({"predict", "run", "sea.txt"}, 2, {"podium generate"});
  std::string other = verse(100);
  other.replace(0, 7, "a gull ");
  write("sea.txt", other);
  refused(train("text:sea.txt", "run"), 3, {"other data", "--fresh"});
  EXPECT_EQ(podium(train_small("digits", {"--steps", "1"})).code, 0);
  refused({"generate", "digits"}, 2, {"data = \"glyphs\"", "trained on text"});
}

TEST_F(OwnText, a_network_leaves_and_comes_back_with_every_bit) {
  write("verse.txt", verse(200));
  done(train("text:verse.txt", "run", {"--steps", "6", "network.bias=true"}));
  const std::string told = done({"export", "run", "--safetensors", "model.safetensors"});
  EXPECT_NE(told.find("tensors of gpt"), std::string::npos) << told;
  EXPECT_NE(told.find("after step 6"), std::string::npos) << told;
  const SafetensorsFile file = read_safetensors(path("model.safetensors"));
  EXPECT_EQ(file.metadata.at("format"), "pt");
  for (const NamedTensor& t : file.tensors)
    EXPECT_EQ(t.name.find("optimizer"), std::string::npos) << t.name;
  // What begins with it has the run's parameters.
  done(train("text:verse.txt", "again",
             {"--steps", "1", "network.bias=true", "optimizer.learning_rate=0", "--init",
              "model.safetensors"}));
  const auto hash = [&](const std::string& run) {
    const std::string text = done({"eval", run, "--json"});
    const std::size_t at = text.find("\"parameter_hash\"");
    return text.substr(at, 40);
  };
  EXPECT_EQ(hash("again"), hash("run"));
  // The same in a folder, by an index.
  std::filesystem::create_directory(path("published"));
  std::filesystem::copy(path("model.safetensors"), path("published/all.safetensors"));
  std::string map;
  for (const NamedTensor& t : file.tensors)
    map += cat(map.empty() ? "" : ",", "\"", t.name, "\":\"all.safetensors\"");
  write("published/model.safetensors.index.json", cat("{\"weight_map\":{", map, "}}"));
  done(train(
      "text:verse.txt", "third",
      {"--steps", "1", "network.bias=true", "optimizer.learning_rate=0", "--init", "published"}));
  EXPECT_EQ(hash("third"), hash("run"));
  expect_refusal(podium({"export", "run", "--safetensors", "model.safetensors"}), 2, {"--force"});
  expect_refusal(podium({"export", "nothing", "--safetensors", "x"}), 3, {"nothing"});
  expect_refusal(podium({"export", "run"}), 2, {"--safetensors FILE", "--onnx FILE"});
  expect_refusal(podium({"export", "run", "--onnx", "x", "--safetensors", "y"}), 2, {"--onnx"});
  EXPECT_NE(done({"export", "run", "--onnx", "model.onnx"}).find(" of gpt, "), std::string::npos);
  EXPECT_GT(std::filesystem::file_size(path("model.onnx")), 10000U);
  expect_refusal(podium({"export", "run", "--onnx", "model.onnx"}), 2, {"--force"});
  expect_refusal(podium({"export", "run", "--step", "77", "--safetensors", "x"}), 2, {"77", "6"});
}

}  // namespace
}  // namespace podium::test
