#include "cli/bench/bench_exchange.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include "backend/device.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/trace.h"
#include "base/words.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/byte_text.h"
#include "nn/models.h"
#include "parallel/exchange.h"
#include "parallel/mpi_sums.h"
#include "parallel/ranks.h"
#include "train/machine/memory.h"
#include "train/run/run.h"

namespace podium {
namespace {

// The sum over all ranks of so many bytes, and its way back to all of them, as a step of a run with
// one replica a rank has it.
class FixedOrderSum {
 public:
  FixedOrderSum(Device& device, Transport& ranks, std::int64_t bytes, std::int64_t bucket_bytes)
      : device_(device),
        gradients_(device.allocate(bytes)),
        parameters_(device.allocate(bytes)),
        rank_(ranks.rank()),
        shards_{std::vector<int>(static_cast<std::size_t>(ranks.ranks()), 1), {}},
        exchange_(device, &ranks, ranks.ranks(), cut(shards_, bytes, bucket_bytes)) {
    exchange_.share_flat(*parameters_, 0);
  }

  std::span<float> gradients() { return floats(*gradients_); }
  std::span<float> parameters() { return floats(*parameters_); }

  void run(std::uint64_t calls = 1) {
    for (std::uint64_t i = 0; i < calls; ++i) run_once();
  }

  // That this rank sends in a run.
  std::int64_t sent_bytes() const {
    std::int64_t bytes = 0;
    const int others = shards_.ranks() - 1;
    for (int b = 0; b < shards_.buckets(); ++b) {
      const std::int64_t own = shards_.end(b, rank_) - shards_.begin(b, rank_);
      bytes += shards_.end(b, others) - shards_.begin(b, 0) - own + others * own;
    }
    return bytes;
  }

 private:
  void run_once() {
    exchange_.begin_step();
    exchange_.publish({rank_, rank_ + 1}, *gradients_);
    for (int b = 0; b < exchange_.buckets(); ++b) exchange_.complete(0, b);
    for (int b = 0; b < exchange_.buckets(); ++b) {
      exchange_.sum(0, b);
      const std::int64_t begin = shards_.begin(b, rank_), end = shards_.end(b, rank_);
      if (begin < end) device_.copy({*parameters_, begin, end - begin}, exchange_.sums(begin, end));
      exchange_.updated(b);
    }
    exchange_.finish_updates();
  }

  static std::span<float> floats(Buffer& buffer) {
    return {reinterpret_cast<float*>(buffer.host()),
            static_cast<std::size_t>(buffer.bytes()) / sizeof(float)};
  }
  // Fills in the cuts, and returns a copy.
  static Shards cut(Shards& shards, std::int64_t bytes, std::int64_t bucket_bytes) {
    constexpr std::int64_t kAlign = 64;
    const std::int64_t least = bucket_size(bytes, bucket_bytes);
    const std::int64_t ranks = shards.ranks();
    for (std::int64_t end = bytes; end > 0;) {
      const std::int64_t begin = end < 2 * least ? 0 : (end - least) / kAlign * kAlign;
      std::vector<std::int64_t>& cuts = shards.cuts.emplace_back();
      const std::int64_t units = (end - begin) / kAlign;
      for (std::int64_t r = 0; r < ranks; ++r) cuts.push_back(begin + units * r / ranks * kAlign);
      cuts.push_back(end);
      end = begin;
    }
    return shards;
  }

  Device& device_;
  std::unique_ptr<Buffer> gradients_, parameters_;
  int rank_;
  Shards shards_;
  Exchange exchange_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// Seconds of one call, by rank 0's clock. A way is told how many to make. Each round takes every
// way in turn, so that what else the machine does falls on all of them; the median of the rounds.
std::vector<double> seconds_of(Transport& ranks, std::int64_t rounds,
                               const std::vector<std::function<void(std::uint64_t)>>& ways) {
  constexpr double kSeconds = 0.2;  // of a way in a round, at least one call
  std::vector<std::uint64_t> calls;
  for (const auto& way : ways) {
    ranks.barrier();
    const auto start = Clock::now();
    way(1);
    const auto wanted = std::clamp(kSeconds / seconds_since(start), 1.0, 1000.0);
    calls.push_back(ranks.agree(ranks.rank() == 0 ? static_cast<std::uint64_t>(wanted) : 0));
  }
  std::vector<std::vector<double>> seconds(ways.size());
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      ranks.barrier();
      const auto start = Clock::now();
      ways[way](calls[way]);
      seconds[way].push_back(seconds_since(start) / static_cast<double>(calls[way]));
    }
  }
  std::vector<double> medians;
  for (const auto& of_way : seconds) medians.push_back(median(of_way));
  return medians;
}

void require_sum(std::span<const float> values, int ranks, const char* of) {
  const int sum = ranks * (ranks + 1) / 2;
  const auto wanted = static_cast<float>(sum);
  for (const float value : values) PODIUM_CHECK(value == wanted, of, " is wrong");
}

struct SizeTimes {
  std::int64_t bytes = 0, sent = 0;
  double bound = 0;  // bytes that a rank must send, at least
  double ours = 0;
  std::optional<double> allreduce, reduce;  // where MPI carries the messages
};

SizeTimes time_size(Device& device, Transport& ranks, std::int64_t bytes, std::int64_t rounds,
                    std::int64_t bucket_bytes) {
  FixedOrderSum sum(device, ranks, bytes, bucket_bytes);
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  // Small whole numbers once, which every order adds alike; then zeros, which stay what they are.
  const auto mine = static_cast<float>(ranks.rank() + 1);
  std::ranges::fill(sum.gradients(), mine);
  sum.run();
  require_sum(sum.parameters(), ranks.ranks(), "the sum in fixed order");
  std::ranges::fill(sum.gradients(), 0.0f);
  std::ranges::fill(values, mine);
  std::vector<std::function<void(std::uint64_t)>> ways = {
      [&](std::uint64_t calls) { sum.run(calls); }};
  const bool has_mpi = mpi_sum(ranks, MpiSum::kAllreduce, values);
  if (has_mpi) {
    require_sum(values, ranks.ranks(), "MPI's sum");
    std::ranges::fill(values, 0.0f);
    for (const MpiSum how : {MpiSum::kAllreduce, MpiSum::kReduceAndBroadcast})
      ways.emplace_back([&, how](std::uint64_t calls) { mpi_sum(ranks, how, values, calls); });
  }
  const std::vector<double> seconds = seconds_of(ranks, rounds, ways);
  const double n = ranks.ranks();
  SizeTimes times = {.bytes = bytes,
                     .sent = sum.sent_bytes(),
                     .bound = 2 * (n - 1) / n * static_cast<double>(bytes),
                     .ours = seconds[0]};
  if (has_mpi) times.allreduce = seconds[1], times.reduce = seconds[2];
  return times;
}

std::string milliseconds(std::optional<double> seconds) {
  return seconds ? fixed(1e3 * *seconds, 3) : "-";
}

nlohmann::ordered_json known(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

ExitCode bench_sizes(const BenchExchangeArguments& arguments, Transport& ranks) {
  const auto device = make_device(arguments.placement.backend);
  ranks.use(*device);
  Table table({"BYTES", "MS", "MPI_ALLREDUCE", "RATIO", "MPI_REDUCE+MPI_BCAST", "RATIO",
               "SENT/BOUND", "GB/S"});
  auto json = nlohmann::ordered_json::array();
  for (const std::string& size : arguments.sizes) {
    const std::int64_t bytes = parse_bytes(size) / 4 * 4;
    PODIUM_REQUIRE(bytes > 0, ExitCode::kUsage, "--sizes ", size, ": at least 4 bytes");
    const SizeTimes times =
        time_size(*device, ranks, bytes, arguments.rounds, arguments.placement.bucket_bytes);
    const auto ratio = [&](std::optional<double> other) {
      return other ? fixed(times.ours / *other, 2) : "-";
    };
    const double sent = static_cast<double>(times.sent);
    table.add({std::to_string(times.bytes), milliseconds(times.ours), milliseconds(times.allreduce),
               ratio(times.allreduce), milliseconds(times.reduce), ratio(times.reduce),
               fixed(sent / times.bound, 3), fixed(sent / times.ours / 1e9, 2)});
    json.push_back({{"bytes", times.bytes},
                    {"seconds", times.ours},
                    {"allreduce_seconds", known(times.allreduce)},
                    {"reduce_and_broadcast_seconds", known(times.reduce)},
                    {"sent_bytes", times.sent},
                    {"bound_bytes", times.bound}});
  }
  ranks.release();
  if (ranks.rank() != 0) return ExitCode::kDone;
  if (arguments.json) {
    const nlohmann::ordered_json whole = {
        {"ranks", ranks.ranks()}, {"mpi", mpi_library()}, {"sizes", json}};
    std::cout << json_text(whole, 2) << "\n";
  } else {
    std::cout << count_text(ranks.ranks(), "rank") << ", "
              << (mpi_library().empty() ? "no MPI" : mpi_library())
              << "; milliseconds, the median of " << count_text(arguments.rounds, "round")
              << "; bytes that rank 0 sends\n"
              << table.text();
  }
  return ExitCode::kDone;
}

// --- the price of the law, and a model of the step

// A trainer of this rank's share of each batch, alone.
Recipe share_of(Recipe recipe, int ranks) {
  PODIUM_REQUIRE(recipe.replicas % ranks == 0, ExitCode::kUsage, "recipe ", recipe.name, " has ",
                 recipe.replicas, " replicas, which ", ranks,
                 " ranks cannot share evenly; start a number of ranks that divides them");
  recipe.batch /= ranks;
  recipe.replicas /= ranks;
  return recipe;
}

// The gradients become the mean over all ranks, added in MPI's order.
void sum_by_mpi(Transport& ranks, Trainer& trainer) {
  const std::span<const TensorSpan> gradients = trainer.gradients();
  // As few calls as there are runs of memory without a gap.
  for (std::size_t i = 0; i < gradients.size();) {
    std::span<float> run = gradients[i].values;
    for (++i; i < gradients.size(); ++i) {
      const std::span<float> next = gradients[i].values;
      const auto gap = next.data() - (run.data() + run.size());
      if (gap < 0 || gap >= 64) break;
      run = {run.data(), next.data() + next.size()};
    }
    mpi_sum(ranks, MpiSum::kAllreduce, run);
    const float share = 1.0f / static_cast<float>(ranks.ranks());
    for (float& value : run) value *= share;
  }
}

// A step of a rank with one worker, in seconds: what the model is given. Times are medians, but the
// programs' are means of the slowest rank's, since all wait for that one.
struct StepShape {
  double batch = 0;              // until the first replica's batch is there
  double programs = 0;           // of all replicas, and the other batches
  std::vector<double> to_ready;  // from a bucket's gradients to the end of the programs
  std::vector<double> update;    // of each bucket
  double rest = 0;
};

// The link between the ranks, as the model sees it: messages of one exchange take so long. A link
// may let some bytes through at once, or lose some of a long burst: this holds for messages of
// about the length at which it was measured.
struct Link {
  double latency = 0, per_byte = 0;
  double seconds(double bytes) const { return latency + per_byte * bytes; }
};

Link measure_link(Device& device, Transport& ranks, std::int64_t largest_bucket) {
  // There and back, in one bucket; with pauses as between the exchanges of two steps.
  constexpr std::int64_t kShort = 4 << 10;
  constexpr int kCalls = 21;
  const std::int64_t long_bytes = std::max(largest_bucket, 16 * kShort);
  const auto seconds_of_sum = [&](std::int64_t bytes) {
    FixedOrderSum sum(device, ranks, bytes, bytes);
    std::vector<double> seconds;
    for (int call = 0; call < kCalls; ++call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ranks.barrier();
      const auto start = Clock::now();
      sum.run(1);
      seconds.push_back(seconds_since(start));
    }
    return median(seconds);
  };
  const double of_short = seconds_of_sum(kShort), of_long = seconds_of_sum(long_bytes);
  const double n = ranks.ranks(), each = (n - 1) / n;
  const double per_byte =
      (of_long - of_short) / 2 / each / static_cast<double>(long_bytes - kShort);
  return {.latency = of_short / 2 - per_byte * each * kShort, .per_byte = per_byte};
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

StepShape shape_of(const Trace& trace, Transport& ranks, std::int64_t replicas, int buckets) {
  std::vector<std::vector<double>> ready(static_cast<std::size_t>(buckets)),
      update(static_cast<std::size_t>(buckets));
  std::vector<double> batch, programs, rest;
  Clock::time_point batch_begin, first, end, updated;
  std::vector<Clock::time_point> sent(static_cast<std::size_t>(buckets));
  std::int64_t seen = 0;  // replicas of this step
  std::map<std::int64_t, Clock::time_point> begun;
  for (const Trace::Span& span : trace.spans()) {
    const std::string_view name = span.name;
    const auto b = static_cast<std::size_t>(span.number);
    if (name == "batch of replica") {
      if (seen++ == 0) {
        batch_begin = span.begin;
        batch.push_back(seconds_between(span.begin, span.end));
        if (updated != Clock::time_point()) rest.push_back(seconds_between(updated, span.begin));
      }
    } else if (name == "replica") {
      if (seen == 1) first = span.begin;
      end = span.end;
      if (seen == replicas) programs.push_back(seconds_between(first, end));
    } else if (name == "gradients") {
      ready[b].push_back(seconds_between(span.begin, end));
    } else if (name == "update bucket") {
      update[b].push_back(seconds_between(span.begin, span.end));
      updated = span.end;
      seen = 0;
    }
  }
  // All ranks make the same steps.
  std::vector<std::vector<double>> all;
  for (const std::string& text : ranks.gather(nlohmann::json(programs).dump()))
    all.push_back(nlohmann::json::parse(text).get<std::vector<double>>());
  double sum = 0;
  for (std::size_t step = 0; step < programs.size(); ++step) {
    double slowest = 0;
    for (const auto& of_rank : all) slowest = std::max(slowest, of_rank[step]);
    sum += slowest;
  }
  StepShape shape = {.batch = median(batch),
                     .programs = sum / static_cast<double>(programs.size()),
                     .rest = median(rest)};
  for (int b = 0; b < buckets; ++b) {
    shape.to_ready.push_back(median(ready[static_cast<std::size_t>(b)]));
    shape.update.push_back(median(update[static_cast<std::size_t>(b)]));
  }
  return shape;
}

// Seconds of a step: messages go one after the other over the link, gradients as they are ready and
// parameters as they are updated; these must have come before the next step's first program.
double predicted_step(const StepShape& shape, const Link& link,
                      const std::vector<double>& bucket_bytes, int ranks) {
  const double share = (ranks - 1.0) / ranks;
  double zero = 0, period = 0, parameters_come = 0;
  for (int step = 0; step < 20; ++step) {  // until it repeats itself
    const double programs_end = std::max(zero + shape.batch, parameters_come) + shape.programs;
    double free = parameters_come, worker = programs_end;
    std::vector<double> sums;
    for (std::size_t b = 0; b < bucket_bytes.size(); ++b) {
      free =
          std::max(free, programs_end - shape.to_ready[b]) + link.seconds(share * bucket_bytes[b]);
      sums.push_back(free);
    }
    for (std::size_t b = 0; b < bucket_bytes.size(); ++b) {
      worker = std::max(worker, sums[b]) + shape.update[b];
      free = std::max(free, worker) + link.seconds(share * bucket_bytes[b]);
    }
    parameters_come = free;
    period = worker + shape.rest - zero;
    zero = worker + shape.rest;
  }
  return period;
}

ExitCode bench_law(const BenchExchangeArguments& arguments, Transport& ranks) {
  set_quiet(ranks.rank() != 0);
  const Recipe recipe =
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir);
  const Recipe share = share_of(recipe, ranks.ranks());
  const RunData data = load_data(recipe, arguments.data_dir);
  const Model model = model_of(recipe);
  Placement placement = arguments.placement;
  placement.workers = 1;
  Trainer alone(share, model, data.train, data.held_out, placement);
  Trace trace;
  placement.ranks = &ranks;
  placement.trace = &trace;
  Trainer together(recipe, model, data.train, data.held_out, placement);
  const Link link = measure_link(alone.device(), ranks, std::ranges::max(together.bucket_bytes()));

  const auto steps_of = [&](const std::function<void()>& step) {
    return [&, step] {
      for (std::int64_t i = 0; i < arguments.steps; ++i) step();
    };
  };
  const std::vector<std::function<void()>> ways = {
      steps_of([&] { together.step(); }),
      steps_of([&] { alone.step({}, [&](Trainer& trainer) { sum_by_mpi(ranks, trainer); }); }),
      steps_of([&] { alone.step(); })};
  std::vector<std::vector<double>> seconds(ways.size());
  for (std::int64_t round = -1; round < arguments.rounds; ++round) {  // the first warms up
    for (std::size_t way = 0; way < ways.size(); ++way) {
      ranks.barrier();
      const auto start = Clock::now();
      ways[way]();
      ranks.barrier();
      if (round >= 0)
        seconds[way].push_back(seconds_since(start) / static_cast<double>(arguments.steps));
    }
  }
  std::vector<double> ratios;
  for (std::size_t round = 0; round < seconds[0].size(); ++round)
    ratios.push_back(seconds[0][round] / seconds[1][round]);

  std::vector<double> bucket_bytes;
  for (const std::int64_t bytes : together.bucket_bytes())
    bucket_bytes.push_back(static_cast<double>(bytes));
  const StepShape shape =
      shape_of(trace, ranks, share.replicas, static_cast<int>(bucket_bytes.size()));
  const double predicted = predicted_step(shape, link, bucket_bytes, ranks.ranks());
  if (ranks.rank() != 0) return ExitCode::kDone;
  const double law = median(seconds[0]), mpi = median(seconds[1]), without = median(seconds[2]);
  double bytes = 0;
  for (const double of_bucket : bucket_bytes) bytes += of_bucket;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"recipe", recipe.name},
                                         {"ranks", ranks.ranks()},
                                         {"mpi", mpi_library()},
                                         {"rounds", arguments.rounds},
                                         {"steps", arguments.steps},
                                         {"step_seconds", law},
                                         {"allreduce_step_seconds", mpi},
                                         {"ratio", median(ratios)},
                                         {"ratios", ratios},
                                         {"alone_step_seconds", without},
                                         {"exchanged_bytes", bytes},
                                         {"buckets", bucket_bytes.size()},
                                         {"link_latency_seconds", link.latency},
                                         {"link_bytes_per_second", 1 / link.per_byte},
                                         {"predicted_step_seconds", predicted}};
    std::cout << json_text(json, 2) << "\n";
    return ExitCode::kDone;
  }
  std::cout << recipe.name << ", " << count_text(ranks.ranks(), "rank") << " of one worker, "
            << count_text(arguments.rounds, "round") << " of "
            << count_text(arguments.steps, "step") << "; milliseconds\n";
  Table table({"STEP", "MS", "RATIO"});
  table.add({"in fixed order", fixed(1e3 * law, 2), fixed(median(ratios), 3)});
  table.add({"with MPI_Allreduce after the backward pass", fixed(1e3 * mpi, 2), "1"});
  table.add({"without exchange", fixed(1e3 * without, 2), fixed(without / mpi, 3)});
  table.add({"in fixed order, as the model has it", fixed(1e3 * predicted, 2),
             fixed(predicted / law, 3) + " of the first"});
  std::cout << table.text() << "exchanged: " << scaled(bytes, "B") << " in " << bucket_bytes.size()
            << " buckets, over a link of " << scaled(1 / link.per_byte, "B/s") << " and "
            << fixed(1e6 * link.latency, 0) << " us\n";
  return ExitCode::kDone;
}

}  // namespace

ExitCode bench_exchange(const BenchExchangeArguments& arguments, Transport& ranks) {
  PODIUM_REQUIRE(ranks.ranks() > 1, ExitCode::kUsage,
                 "`bench exchange` measures several ranks; start it as `mpirun -n 2 podium bench "
                 "exchange`");
  return arguments.recipe.recipe.empty() ? bench_sizes(arguments, ranks)
                                         : bench_law(arguments, ranks);
}

}  // namespace podium
