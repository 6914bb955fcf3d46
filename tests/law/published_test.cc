// Weights that others trained and published: a Llama of 260,000 parameters in llama2.c's format
// (docs/sequences.md), whose probabilities of the next token are those of an implementation that
// shares nothing with ours: plain loops in double precision, neighbouring features as pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/operation_case.h"
#include "data/datasets/dataset.h"
#include "nn/models.h"
#include "train/program/program.h"

namespace podium {
namespace {

using Row = std::vector<double>;

std::optional<std::vector<char>> stories() {
  for (const std::string& folder : dataset_folders("")) {
    const auto path = std::filesystem::path(folder) / "stories260k" / "stories260K.bin";
    if (!std::filesystem::exists(path)) continue;
    std::ifstream file(path, std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
  }
  return std::nullopt;
}

// The file: seven integers, then matrices [out, in], each kind of all layers together.
struct Published {
  std::int64_t width, hidden, layers, heads, groups, vocabulary, context;
  std::map<std::string, std::vector<float>> tensors;

  explicit Published(const std::vector<char>& bytes) {
    std::int32_t header[7];
    std::memcpy(header, bytes.data(), sizeof header);
    width = header[0], hidden = header[1], layers = header[2], heads = header[3],
    groups = header[4], vocabulary = header[5], context = header[6];
    std::size_t at = sizeof header;
    const auto read = [&](const std::string& name, std::int64_t floats) {
      auto& values = tensors[name];
      values.resize(static_cast<std::size_t>(floats));
      ASSERT_LE(at + 4 * values.size(), bytes.size());
      std::memcpy(values.data(), bytes.data() + at, 4 * values.size());
      at += 4 * values.size();
    };
    const std::int64_t keys = width / heads * groups;
    read("embed", vocabulary * width);
    read("norm_1", layers * width);
    read("q", layers * width * width);
    read("k", layers * keys * width);
    read("v", layers * keys * width);
    read("o", layers * width * width);
    read("norm_2", layers * width);
    read("gate", layers * hidden * width);
    read("down", layers * width * hidden);
    read("up", layers * hidden * width);
    read("norm", width);
  }
  const float* layer(const std::string& name, std::int64_t i) const {
    const auto& all = tensors.at(name);
    return all.data() + i * (std::ssize(all) / layers);
  }
};

Row product(const float* matrix, const Row& x, std::int64_t rows) {
  Row y(static_cast<std::size_t>(rows));
  for (double& sum : y)
    for (const double value : x) sum += static_cast<double>(*matrix++) * value;
  return y;
}
Row normed(const Row& x, const float* scale) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double by = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  Row y = x;
  for (double& value : y) value = *scale++ * (value * by);
  return y;
}
void turn(Row& x, std::int64_t features, std::size_t position) {
  for (std::size_t i = 0; i < x.size(); i += 2) {
    const auto d = static_cast<double>(static_cast<std::int64_t>(i) % features);
    const double angle =
        static_cast<double>(position) * std::pow(10000.0, -d / static_cast<double>(features));
    const double a = x[i], b = x[i + 1];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}
void softmax(Row& x) {
  const double most = *std::ranges::max_element(x);
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value - most);
  for (double& value : x) value /= sum;
}

// The probabilities of the token after each.
std::vector<Row> expected_of(const Published& p, const std::vector<std::int32_t>& tokens) {
  const std::int64_t features = p.width / p.heads;
  const auto u = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<std::vector<Row>> keys(u(p.layers)), values(u(p.layers));
  std::vector<Row> result;
  for (std::size_t position = 0; position < tokens.size(); ++position) {
    const float* embedded = p.tensors.at("embed").data() + tokens[position] * p.width;
    Row x(embedded, embedded + p.width);
    for (std::int64_t l = 0; l < p.layers; ++l) {
      const std::int64_t kept = features * p.groups;
      const Row h = normed(x, p.layer("norm_1", l));
      Row q = product(p.layer("q", l), h, p.width), k = product(p.layer("k", l), h, kept);
      turn(q, features, position);
      turn(k, features, position);
      keys[u(l)].push_back(k);
      values[u(l)].push_back(product(p.layer("v", l), h, kept));
      Row mixed(u(p.width));
      for (std::int64_t head = 0; head < p.heads; ++head) {
        const std::size_t first = u(head * features),
                          shared = u(head / (p.heads / p.groups) * features);
        Row scores;
        for (const Row& key : keys[u(l)]) {
          double sum = 0;
          for (std::size_t d = 0; d < u(features); ++d) sum += q[first + d] * key[shared + d];
          scores.push_back(sum / std::sqrt(static_cast<double>(features)));
        }
        softmax(scores);
        for (std::size_t t = 0; t < scores.size(); ++t)
          for (std::size_t d = 0; d < u(features); ++d)
            mixed[first + d] += scores[t] * values[u(l)][t][shared + d];
      }
      const Row attended = product(p.layer("o", l), mixed, p.width);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += attended[i];
      const Row g = normed(x, p.layer("norm_2", l));
      Row gate = product(p.layer("gate", l), g, p.hidden);
      const Row up = product(p.layer("up", l), g, p.hidden);
      for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const Row down = product(p.layer("down", l), gate, p.width);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += down[i];
    }
    Row logits =
        product(p.tensors.at("embed").data(), normed(x, p.tensors.at("norm").data()), p.vocabulary);
    softmax(logits);
    result.push_back(logits);
  }
  return result;
}

// Of queries or keys: features 2i and 2i + 1 of a head become i and i + D/2.
std::vector<float> halves(const Published& p, const float* rows, std::int64_t heads) {
  const std::int64_t features = p.width / p.heads;
  std::vector<float> result;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t i = 0; i < features; ++i) {
      const std::int64_t from = i < features / 2 ? 2 * i : 2 * (i - features / 2) + 1;
      const float* row = rows + (head * features + from) * p.width;
      result.insert(result.end(), row, row + p.width);
    }
  return result;
}

std::vector<float> parameter(const Published& p, const std::string& name) {
  if (name == "model.embed_tokens.weight") return p.tensors.at("embed");
  if (name == "model.norm.weight") return p.tensors.at("norm");
  const std::int64_t l = name[std::string("model.layers.").size()] - '0';
  const std::string part = name.substr(std::string("model.layers.0.").size());
  const std::map<std::string, std::string> names = {
      {"input_layernorm.weight", "norm_1"}, {"self_attn.q_proj.weight", "q"},
      {"self_attn.k_proj.weight", "k"},     {"self_attn.v_proj.weight", "v"},
      {"self_attn.o_proj.weight", "o"},     {"post_attention_layernorm.weight", "norm_2"},
      {"mlp.gate_proj.weight", "gate"},     {"mlp.up_proj.weight", "up"},
      {"mlp.down_proj.weight", "down"}};
  const std::string own = names.at(part);
  const float* first = p.layer(own, l);
  if (own == "q") return halves(p, first, p.heads);
  if (own == "k") return halves(p, first, p.groups);
  return {first, first + std::ssize(p.tensors.at(own)) / p.layers};
}

TEST(PublishedWeights, of_a_llama_give_the_probabilities_of_another_implementation) {
  const auto bytes = stories();
  if (!bytes) GTEST_SKIP() << "stories260k/stories260K.bin is not here";
  const Published p(*bytes);
  constexpr std::int64_t kTokens = 60;
  const Field tokens{
      .name = "tokens", .dtype = DType::kI32, .shape = {kTokens}, .below = p.vocabulary};
  NetworkOptions options{.layers = p.layers, .heads = p.heads, .width = p.width};
  options.bias = false, options.groups = p.groups, options.hidden = p.hidden;
  const Graph graph =
      build_evaluation_program(llama_model(options), {.fields = {tokens}, .rows = 1});
  std::vector<std::int32_t> text = {1};  // the beginning of a story
  for (std::int32_t i = 1; i < kTokens; ++i) text.push_back(300 + i * 37 % 200);
  std::vector<Tensor> inputs;
  for (const NamedValue& input : graph.inputs()) {
    Tensor& tensor = inputs.emplace_back(graph.type(input.value));
    if (input.name == "tokens") {
      std::ranges::copy(text, tensor.i32().begin());
    } else {
      const std::vector<float> values = parameter(p, input.name);
      ASSERT_EQ(std::ssize(values), tensor.elements()) << input.name;
      std::ranges::copy(values, tensor.f32().begin());
    }
  }
  const auto device = make_device("cpu", {.threads = 2});
  LoadedProgram program(*device, graph, inputs);
  program.run();
  const Tensor logits = std::move(program.results()[0]);
  const std::vector<Row> expected = expected_of(p, text);
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const auto row = logits.f32().subspan(t * static_cast<std::size_t>(p.vocabulary),
                                          static_cast<std::size_t>(p.vocabulary));
    Row probabilities(row.begin(), row.end());
    softmax(probabilities);
    for (std::size_t i = 0; i < probabilities.size(); ++i)
      ASSERT_NEAR(probabilities[i], expected[t][i], 1e-5) << "token " << i << " after " << t;
  }
  // It is a language: a story begins with "Once", of which it is sure.
  EXPECT_GT(*std::ranges::max_element(expected[0]), 0.5);
}

}  // namespace
}  // namespace podium
