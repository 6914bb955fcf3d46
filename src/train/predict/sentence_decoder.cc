#include "train/predict/sentence_decoder.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "compile/decode.h"
#include "data/pairs/pair_options.h"
#include "train/predict/predictor_state.h"

namespace podium {

struct SentenceDecoder::State {
  Predictor::State& network;
  std::int64_t rows, context = 0, place = 0;
  BoundExecutable memory, token;
  Staging source, lengths, tokens, positions, origins, logits;
  std::vector<std::unique_ptr<Buffer>> kept;  // caches and memories
};

std::unique_ptr<SentenceDecoder> SentenceDecoder::make(Predictor& predictor, std::int64_t rows,
                                                       int worker) {
  Predictor::State& network = *predictor.state_;
  Device& device = *network.device;
  const std::optional<Decoding> decoding =
      decoding_of(network.program_of(rows), kTokensField, network.output);
  if (!decoding || decoding->memories.empty()) return nullptr;

  auto state = std::make_unique<State>(State{.network = network, .rows = rows});
  State& s = *state;
  s.context = find_field(network.fields, kSourceField)->shape[0];
  const Graph &memory = decoding->memory, &token = decoding->token;
  std::vector<Donation> donations;
  for (const std::string& name : decoding->caches) donations.push_back({kNextCache + name, name});
  s.memory = BoundExecutable(device, memory, {.worker = worker});
  s.token = BoundExecutable(device, token, {.worker = worker, .donations = donations});
  network.bind(s.memory), network.bind(s.token);
  const auto stage = [&](const std::string& name, const Graph& graph) {
    return Staging(device, graph.type(graph.input(name)).bytes());
  };
  s.source = stage(kSourceField, memory), s.lengths = stage(kSourceLengthField, memory);
  s.memory.bind_input(kSourceField, s.source.view());
  s.memory.bind_input(kSourceLengthField, s.lengths.view());
  s.token.bind_input(kSourceLengthField, s.lengths.view());
  s.tokens = stage(kTokensField, token), s.positions = stage(kPositions, token);
  s.origins = stage(kOrigins, token);
  s.token.bind_input(kTokensField, s.tokens.view());
  s.token.bind_input(kPositions, s.positions.view());
  s.token.bind_input(kOrigins, s.origins.view());
  s.logits = Staging(device, token.type(token.output(network.output)).bytes());
  s.token.bind_output(network.output, s.logits.view());
  const auto keep = [&](const std::string& name) -> Buffer& {
    return *s.kept.emplace_back(device.allocate(token.type(token.input(name)).bytes()));
  };
  for (const std::string& name : decoding->caches) s.token.bind_input(name, keep(name));
  for (const std::string& name : decoding->memories) {
    Buffer& buffer = keep(name);
    s.memory.bind_output(name, buffer);
    s.token.bind_input(name, buffer);
  }
  return std::unique_ptr<SentenceDecoder>(new SentenceDecoder(std::move(state)));
}

SentenceDecoder::SentenceDecoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
SentenceDecoder::~SentenceDecoder() = default;

std::int64_t SentenceDecoder::rows() const { return state_->rows; }

void SentenceDecoder::begin(std::span<const std::vector<std::int32_t>> sources) {
  State& s = *state_;
  PODIUM_CHECK(std::ssize(sources) <= s.rows, sources.size());
  auto *const tokens = s.source.host<std::int32_t>(), *const lengths =
                                                          s.lengths.host<std::int32_t>();
  // The rest is padding, which no row sees.
  std::fill_n(tokens, s.rows * s.context, 0);
  std::fill_n(lengths, s.rows, 1);
  for (std::size_t row = 0; row < sources.size(); ++row) {
    std::ranges::copy(sources[row], tokens + static_cast<std::int64_t>(row) * s.context);
    lengths[row] = static_cast<std::int32_t>(sources[row].size());
  }
  s.source.send(), s.lengths.send();
  for (const auto& buffer : s.kept) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(buffer->bytes()));
    s.network.device->upload(*buffer, zeros.data());
  }
  s.memory.run();
  s.place = 0;
}

const float* SentenceDecoder::logits(std::span<const std::int32_t> tokens,
                                     std::span<const std::int32_t> origins) {
  State& s = *state_;
  PODIUM_CHECK(std::ssize(tokens) == s.rows && std::ssize(origins) == s.rows && s.place < s.context,
               tokens.size());
  std::ranges::copy(tokens, s.tokens.host<std::int32_t>());
  std::ranges::copy(origins, s.origins.host<std::int32_t>());
  std::fill_n(s.positions.host<std::int32_t>(), s.rows, static_cast<std::int32_t>(s.place++));
  s.tokens.send(), s.origins.send(), s.positions.send();
  s.token.run();
  s.logits.receive();
  return s.logits.host<float>();
}

}  // namespace podium
