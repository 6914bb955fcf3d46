#include "train/predict/decoder.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/decode.h"
#include "train/predict/predictor_state.h"

namespace podium {

struct Decoder::State {
  Predictor::State& network;
  std::int64_t context, vocabulary;
  bool keeps = false, goes_on = false;
  Tensor predicted;  // of the last window, where nothing is kept
  // Where keys and values are: the programs of a window and of one token more.
  BoundExecutable window;
  Staging window_tokens, window_logits;
  BoundExecutable token;
  Staging token_id, position, origin, token_logits;
  std::vector<std::unique_ptr<Buffer>> caches;
  std::vector<std::int32_t> seen;  // the tokens whose keys and values, or state, are kept

  State(Predictor::State& own, bool may_keep) : network(own) {
    const Field& tokens = network.inputs.at(0);
    context = tokens.shape[0];
    Device& device = *network.device;
    const Graph evaluation = network.program_of(1);
    vocabulary = evaluation.shape(evaluation.output(network.output))[1];
    std::optional<Decoding> decoding;
    std::vector<StateNames> states;
    for (const NamedValue& input : evaluation.inputs())
      if (input.name.starts_with(kCarriedPrefix))
        states.push_back({input.name, kNewPrefix + input.name});
    if (may_keep) decoding = decoding_of(evaluation, tokens.name, network.output, states);
    PODIUM_CHECK(!decoding || decoding->memories.empty());
    keeps = decoding.has_value();
    goes_on = keeps && !states.empty();
    if (!keeps) return;
    const Graph& whole = decoding->window;
    if (!goes_on) {
      window = BoundExecutable(device, whole, {});
      bind(window, whole, tokens.name, window_tokens, window_logits);
    }
    std::vector<Donation> donations;
    for (const std::string& name : decoding->caches) donations.push_back({kNextCache + name, name});
    token = BoundExecutable(device, decoding->token, {.donations = donations});
    bind(token, decoding->token, tokens.name, token_id, token_logits);
    position = Staging(device, sizeof(std::int32_t));
    token.bind_input(kPositions, position.view());
    origin = Staging(device, sizeof(std::int32_t));
    *origin.host<std::int32_t>() = 0;
    origin.send();
    token.bind_input(kOrigins, origin.view());
    for (const std::string& name : decoding->caches) {
      const Graph& one = decoding->token;
      caches.push_back(device.allocate(one.type(one.input(name)).bytes()));
      if (!goes_on) window.bind_output(name, *caches.back());
      token.bind_input(name, *caches.back());
    }
  }

  // Reads the tokens that are new, or all of them if they do not begin with those that it has read.
  std::span<const float> of_all(std::span<const std::int32_t> tokens) {
    const bool follows =
        tokens.size() > seen.size() && std::ranges::equal(tokens.first(seen.size()), seen);
    if (!follows || seen.empty()) {
      seen.clear();
      for (const auto& cache : caches) {
        const std::vector<std::byte> zeros(static_cast<std::size_t>(cache->bytes()));
        network.device->upload(*cache, zeros.data());
      }
    }
    std::span<const float> logits;
    for (const std::int32_t id : tokens.subspan(seen.size())) logits = of_token(id);
    return logits;
  }

  void bind(BoundExecutable& program, const Graph& graph, const std::string& tokens, Staging& in,
            Staging& out) {
    Device& device = *network.device;
    in = Staging(device, graph.type(graph.input(tokens)).bytes());
    out = Staging(device, graph.type(graph.output(network.output)).bytes());
    program.bind_input(tokens, in.view());
    program.bind_output(network.output, out.view());
    network.bind(program);
  }

  std::span<const float> row(const float* logits, std::int64_t number) const {
    return {logits + number * vocabulary, static_cast<std::size_t>(vocabulary)};
  }

  // No token sees those after it, so what fills up the window changes nothing.
  void write_window(std::span<const std::int32_t> tokens, std::int32_t* to) const {
    std::fill(std::ranges::copy(tokens, to).out, to + context, 0);
  }

  std::span<const float> of_window(std::span<const std::int32_t> tokens) {
    const std::int64_t last = std::ssize(tokens) - 1;
    if (!keeps) {
      predicted = network.compute(1, [&](std::int64_t, std::int64_t, FieldMemory to) {
        write_window(tokens, to.at<std::int32_t>(0));
      });
      return row(predicted.f32().data(), last);
    }
    write_window(tokens, window_tokens.host<std::int32_t>());
    window_tokens.send();
    window.run();
    seen.assign(tokens.begin(), tokens.end());
    window_logits.receive();
    return row(window_logits.host<float>(), last);
  }

  std::span<const float> of_token(std::int32_t id) {
    *token_id.host<std::int32_t>() = id;
    *position.host<std::int32_t>() = goes_on ? 0 : static_cast<std::int32_t>(seen.size());
    token_id.send();
    position.send();
    token.run();
    seen.push_back(id);
    token_logits.receive();
    return row(token_logits.host<float>(), 0);
  }
};

Decoder::Decoder(Predictor& predictor, bool keeps) {
  Predictor::State& network = *predictor.state_;
  const Field* const tokens = network.inputs.empty() ? nullptr : network.inputs.data();
  PODIUM_REQUIRE(network.inputs.size() == 1 && tokens->name == "tokens" &&
                     tokens->dtype == DType::kI32 && tokens->shape.rank() == 1,
                 ExitCode::kUsage, "the run of recipe ", network.recipe.name, " reads ",
                 to_text(network.inputs),
                 "; only a network that reads tokens predicts the next one");
  state_ = std::make_unique<State>(network, keeps);
}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

std::int64_t Decoder::context() const { return state_->context; }
bool Decoder::keeps() const { return state_->keeps; }

std::span<const float> Decoder::logits(std::span<const std::int32_t> tokens) {
  State& s = *state_;
  const auto context = static_cast<std::size_t>(s.context);
  PODIUM_CHECK(!tokens.empty(), "no tokens");
  if (s.goes_on) return s.of_all(tokens);
  const bool follows = s.keeps && tokens.size() <= context && tokens.size() == s.seen.size() + 1 &&
                       std::ranges::equal(tokens.first(s.seen.size()), s.seen);
  if (follows) return s.of_token(tokens.back());
  return s.of_window(tokens.last(std::min(context, tokens.size())));
}

}  // namespace podium
