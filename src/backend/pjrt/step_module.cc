#include "backend/pjrt/step_module.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/numerics/tree.h"

namespace podium::pjrt {
namespace {

std::int64_t word(const View& view) { return view.offset / 4; }
std::int64_t words_in(const View& view) { return (view.bytes + 3) / 4; }

// The smallest range that has these words, too.
void extend(Window& window, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  const bool is_empty = window.begin == window.end;
  window.begin = is_empty ? begin : std::min(window.begin, begin);
  window.end = std::max(window.end, end);
}

// The windows of a vector become as long as the longest; that of one worker is the whole vector.
void make_equal(std::vector<Window>& windows, std::int64_t words) {
  if (windows.size() == 1) windows = {{.begin = 0, .end = words}};
  std::int64_t most = 0;
  for (const Window& window : windows) most = std::max(most, window.end - window.begin);
  for (Window& window : windows) {
    window.first = std::min(window.begin, words - most);
    window.words = most;
  }
}

}  // namespace

StepModule::StepModule(const StepProgram& step, const GraphOf& graph_of, ReplicaOrder order)
    : step_(step),
      graph_of_(graph_of),
      order_(order),
      sum_windows_(step.workers.size()),
      square_windows_(step.workers.size()) {
  for (const StepProgram::Worker& worker : step.workers)
    PODIUM_CHECK(worker.replicas.size() == step.workers[0].replicas.size());
  hold_replicas();
  hold_windows_of_sums();
  hold_updates();
}

// Of the vector that the worker's calls name by this view; of none: the number of vectors.
std::size_t StepModule::number_of(const View& view, std::size_t worker) const {
  const auto found = std::ranges::find_if(vectors_, [&](const StepVector& vector) {
    return vector.buffers[worker] == &words_of(view);
  });
  return static_cast<std::size_t>(found - vectors_.begin());
}

void StepModule::hold_replicas() {
  // `view_of` a worker.
  const auto hold = [&](const auto& view_of, bool is_written) {
    if (is_sum(view_of(step_.workers[0]))) return;
    StepVector vector;
    for (const StepProgram::Worker& worker : step_.workers) {
      const View& view = view_of(worker);
      PODIUM_CHECK(view.offset == view_of(step_.workers[0]).offset &&
                       view.buffer->bytes() == view_of(step_.workers[0]).buffer->bytes(),
                   "the calls of workers differ in more than memory");
      vector.buffers.push_back(&words_of(view));
    }
    auto known = std::ranges::find(vectors_, vector.buffers, &StepVector::buffers);
    if (known == vectors_.end()) known = vectors_.insert(known, std::move(vector));
    known->is_written = known->is_written || is_written;
    known->is_whole = true;
  };
  using Worker = StepProgram::Worker;
  for (std::size_t i = 0; i < step_.workers[0].replicas.size(); ++i) {
    const Call& call = step_.workers[0].replicas[i];
    for (std::size_t k = 0; k < call.inputs.size(); ++k)
      hold([&](const Worker& w) -> const View& { return w.replicas[i].inputs[k]; }, false);
    for (std::size_t k = 0; k < call.outputs.size(); ++k)
      hold([&](const Worker& w) -> const View& { return w.replicas[i].outputs[k]; }, true);
  }
  hold([](const Worker& w) -> const View& { return w.losses; }, true);
  if (step_.clips()) hold([](const Worker& w) -> const View& { return w.norm_values; }, true);
  if (!hashes()) return;
  hold([](const Worker& w) -> const View& { return w.hash_words; }, true);
  hold([](const Worker& w) -> const View& { return w.hash_wanted; }, false);
}

void StepModule::hold_windows_of_sums() {
  for (std::size_t w = 0; w < workers(); ++w) {
    const StepProgram::Worker& worker = step_.workers[w];
    for (const std::vector<Call>* const calls : {&worker.squares, &worker.scales, &worker.updates})
      for (const Call& call : *calls)
        for (const View& view : call.inputs) {
          const std::int64_t first = word(view) - word(step_.sum);
          if (is_sum(view)) extend(sum_windows_[w], first, first + words_in(view));
        }
    for (const Call& call : worker.squares)
      for (const View& view : call.outputs)
        extend(square_windows_[w], word(view), word(view) + words_in(view));
  }
  make_equal(sum_windows_, sum_words());
  if (step_.clips()) make_equal(square_windows_, words_of(step_.workers[0].norm.inputs[0]).words());
}

void StepModule::hold_updates() {
  const auto vector_of = [&](const View& view, std::size_t worker) -> StepVector& {
    const std::size_t number = number_of(view, worker);
    if (number == vectors_.size())
      vectors_.push_back({.buffers = std::vector(workers(), &words_of(view)), .windows = {}});
    return vectors_[number];
  };
  for (std::size_t w = 0; w < workers(); ++w) {
    for (const Call& call : step_.workers[w].updates) {
      for (const View& view : call.inputs)
        if (!is_sum(view)) vector_of(view, w);
      for (const View& view : call.outputs) {
        StepVector& vector = vector_of(view, w);
        PODIUM_CHECK(std::ranges::count(vector.buffers, vector.buffers[0]) ==
                     std::ssize(vector.buffers));
        vector.is_written = true;
        vector.windows.resize(workers());
        extend(vector.windows[w], word(view), word(view) + words_in(view));
      }
    }
  }
  for (StepVector& vector : vectors_) {
    make_equal(vector.windows, vector.buffers[0]->words());
    vector.is_whole = vector.is_whole || workers() == 1;
  }
}

// No operation may melt into one of another program of the step, which would round in other places:
// additions, sums of squares, the norm, products with its factor, and updates stand in branches of
// their own.
std::string StepModule::text() {
  std::vector<std::string> arguments;
  std::size_t results = 0;
  for (const StepVector& vector : vectors_) {
    values_.push_back(b_.argument(arguments.size(), {DType::kU32, Shape{vector.words()}}));
    const std::string donated =
        vector.is_written ? cat(" {tf.aliasing_output = ", results++, " : i32}") : "";
    arguments.push_back(cat(values_.back().name, ": ", values_.back().type(), donated));
  }
  std::vector<Replica> replicas;
  std::vector<HloValue> losses;
  for (const Call& call : step_.workers[0].replicas) {
    if (order_ == ReplicaOrder::kInTurn && !replicas.empty()) begin_after(replicas.back(), call);
    replicas.push_back(run_replica(call));
    losses.push_back(
        std::ranges::find(replicas.back(), word(step_.loss) - word(step_.sum), &Part::first)
            ->value);
  }
  const HloValue own = b_.concatenate(losses, 0);
  const View& kept = step_.workers[0].losses;
  HloValue& value = values_[number_of(kept, 0)];
  value = written(value, b_.bitcast(own, "ui32"), word(kept));
  HloValue finite = all_true(b_.make("i1", own.shape,
                                     cat("stablehlo.is_finite ", own.name, " : (", own.type(),
                                         ") -> ", stablehlo::type_text("i1", own.shape))));
  HloValue sum;
  if (workers() == 1) {
    sum = sums(finite, sum_words(),
               [&] { return std::vector{flat_sum(replicas, 0, std::ssize(replicas))}; })[0];
  } else {
    const std::vector<HloValue> leaves = exchange(local_sums(replicas, finite), finite);
    sum = sums(finite, sum_windows_[0].words,
               [&] { return std::vector{leaf_sum(leaves, 0, std::ssize(leaves))}; })[0];
  }
  if (step_.clips()) sum = clipped(finite, sum);
  update(finite, sum);
  if (hashes()) hash(finite);
  std::vector<HloValue> made;
  for (std::size_t i = 0; i < vectors_.size(); ++i)
    if (vectors_[i].is_written) made.push_back(values_[i]);
  return module_around("step", arguments, b_, made);
}

StepModule::HloValue StepModule::read(const HloValue& vector, std::int64_t first,
                                      const TensorType& type) {
  const std::int64_t count = type.shape.elements();
  PODIUM_CHECK(first >= 0 && first + count <= vector.shape[0],
               "an update reads what another worker's updates write");
  const HloValue words = b_.slice(vector, 0, first, count);
  return b_.reshape(b_.bitcast(words, stablehlo::element_of(type.dtype)), type.shape);
}

StepModule::HloValue StepModule::written(const HloValue& vector, const HloValue& words,
                                         std::int64_t first) {
  if (vector.shape == words.shape) return words;
  return b_.dynamic_update_slice(vector, words,
                                 b_.integer("i32", static_cast<std::uint64_t>(first)));
}

// The results as vectors.
std::vector<StepModule::HloValue> StepModule::run(
    const Call& call, const std::function<HloValue(const View&, const TensorType&)>& read) {
  const Graph& graph = graph_of_(*call.program);
  std::vector<HloValue> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    inputs.push_back(read(call.inputs[i], graph.type(graph.inputs()[i].value)));
  std::vector<HloValue> made = stablehlo::emit(b_, graph, inputs);
  for (HloValue& result : made) result = b_.reshape(result, Shape{result.shape.elements()});
  return made;
}

// Its parts are in the order of their places.
StepModule::Replica StepModule::run_replica(const Call& call) {
  const std::vector<HloValue> made = run(call, [&](const View& view, const TensorType& type) {
    return read(values_[number_of(view, 0)], word(view), type);
  });
  Replica parts;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const View& view = call.outputs[i];
    if (is_sum(view)) {
      PODIUM_CHECK(made[i].element == "f32");
      parts.push_back({word(view) - word(step_.sum), made[i]});
    } else {
      HloValue& value = values_[number_of(view, 0)];
      value = written(value, b_.bitcast(made[i], "ui32"), word(view));
    }
  }
  std::ranges::sort(parts, {}, &Part::first);
  return parts;
}

// What no other replica reads (images, labels) waits for the results of the one before. Parameters
// do not wait, so that the compiler need not arrange them anew for each replica.
void StepModule::begin_after(Replica& before, const Call& call) {
  const Call& first = step_.workers[0].replicas[0];
  std::set<std::size_t> own;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool is_shared = call.inputs[i].buffer == first.inputs[i].buffer &&
                           call.inputs[i].offset == first.inputs[i].offset;
    if (!is_shared) own.insert(number_of(call.inputs[i], 0));
  }
  std::vector<HloValue*> waiting;
  for (const std::size_t number : own) waiting.push_back(&values_[number]);
  for (Part& part : before) waiting.push_back(&part.value);
  std::vector<HloValue> values;
  for (const HloValue* const value : waiting) values.push_back(*value);
  values = b_.barrier(std::move(values));
  for (std::size_t i = 0; i < waiting.size(); ++i) *waiting[i] = values[i];
}

StepModule::HloValue StepModule::all_true(const HloValue& flags) {
  const std::int64_t axes[] = {0};
  return b_.reduce(flags, "and", b_.integer("i1", 1), axes);
}

StepModule::HloValue StepModule::sum_of(const std::vector<Replica>& replicas, std::size_t part,
                                        std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) return replicas[static_cast<std::size_t>(begin)][part].value;
  const std::int64_t middle = tree_middle(begin, end);
  const HloValue left = sum_of(replicas, part, begin, middle);
  return b_.add(left, sum_of(replicas, part, middle, end));
}

// Of these replicas: one vector, zeros between the parts.
StepModule::HloValue StepModule::flat_sum(const std::vector<Replica>& replicas, std::int64_t begin,
                                          std::int64_t end) {
  std::vector<HloValue> pieces;
  std::int64_t filled = 0;
  const auto fill_to = [&](std::int64_t first) {
    if (first > filled) pieces.push_back(b_.constant(0, Shape{first - filled}));
  };
  for (std::size_t i = 0; i < replicas[0].size(); ++i) {
    fill_to(replicas[0][i].first);
    pieces.push_back(sum_of(replicas, i, begin, end));
    filled = replicas[0][i].first + pieces.back().shape[0];
  }
  fill_to(sum_words());
  return b_.concatenate(pieces, 0);
}

// FP32 vectors that `yes` adds up, in a branch of its own; zeros where not all losses are finite.
std::vector<StepModule::HloValue> StepModule::sums(const HloValue& finite, std::int64_t words,
                                                   const stablehlo::Builder::Branch& yes) {
  std::size_t count = 0;
  const stablehlo::Builder::Branch branches[] = {
      [&] {
        const std::vector<HloValue> made = yes();
        count = made.size();
        return made;
      },
      [&] { return std::vector(count, b_.constant(0, Shape{words})); }};
  return b_.choose(b_.select(finite, b_.integer("i32", 0), b_.integer("i32", 1)), branches);
}

// Of a device: the sums of the largest nodes of the tree that are alike on all devices. They have
// as many replicas as the largest power of two that divides a device's.
std::vector<StepModule::HloValue> StepModule::local_sums(const std::vector<Replica>& replicas,
                                                         const HloValue& finite) {
  const std::int64_t count = std::ssize(replicas), node = count & -count;
  const auto nodes = [&] {
    std::vector<HloValue> made;
    for (std::int64_t i = 0; i < count; i += node) made.push_back(flat_sum(replicas, i, i + node));
    return made;
  };
  return node == 1 ? nodes() : sums(finite, sum_words(), nodes);
}

// All devices' local sums of this device's window, which are nodes of the tree, in their order.
// `finite` becomes whether it is on all devices.
std::vector<StepModule::HloValue> StepModule::exchange(const std::vector<HloValue>& sums,
                                                       HloValue& finite) {
  const std::int64_t each = sum_windows_[0].words, length = std::ssize(sums) * each + 1;
  const HloValue flag = b_.reshape(b_.convert(finite, "ui32"), Shape{1});
  std::vector<HloValue> words, rows;
  for (const HloValue& sum : sums) words.push_back(b_.bitcast(sum, "ui32"));
  for (const Window& window : sum_windows_) {
    std::vector<HloValue> row;
    for (const HloValue& vector : words) row.push_back(b_.slice(vector, 0, window.first, each));
    row.push_back(flag);
    rows.push_back(b_.reshape(b_.concatenate(row, 0), Shape{1, length}));
  }
  const HloValue received = b_.all_to_all(b_.concatenate(rows, 0));
  const auto devices = static_cast<std::int64_t>(workers());
  const HloValue flags = b_.reshape(b_.slice(received, 1, length - 1, 1), Shape{devices});
  finite = all_true(b_.compare("EQ", flags, b_.integer("ui32", 1, flags.shape)));
  std::vector<HloValue> leaves;
  for (std::int64_t device = 0; device < devices; ++device) {
    const HloValue row = b_.reshape(b_.slice(received, 0, device, 1), Shape{length});
    for (std::int64_t i = 0; i < std::ssize(sums); ++i)
      leaves.push_back(b_.bitcast(b_.slice(row, 0, i * each, each), "f32"));
  }
  return leaves;
}

StepModule::HloValue StepModule::leaf_sum(const std::vector<HloValue>& leaves, std::int64_t begin,
                                          std::int64_t end) {
  if (end - begin == 1) return leaves[static_cast<std::size_t>(begin)];
  const std::int64_t middle = tree_middle(begin, end);
  const HloValue left = leaf_sum(leaves, begin, middle);
  return b_.add(left, leaf_sum(leaves, middle, end));
}

StepModule::HloValue StepModule::read_sum(const View& view, const TensorType& type,
                                          std::size_t worker, const HloValue& sum) {
  return read(sum, word(view) - word(step_.sum) - sum_windows_[worker].first, type);
}

// The number of a device's branch after branch 0, or 0 where the condition is false.
StepModule::HloValue StepModule::of_device(const HloValue& condition) {
  const HloValue branch = b_.convert(condition, "i32");
  if (workers() == 1) return branch;
  return b_.mul(branch, b_.add(b_.convert(b_.device_number(), "i32"), b_.integer("i32", 1)));
}

// The worker's window of the sums of squares.
StepModule::HloValue StepModule::run_squares(std::size_t worker, const HloValue& sum) {
  const Window& window = square_windows_[worker];
  HloValue own = b_.integer("ui32", 0, Shape{window.words});
  for (const Call& call : step_.workers[worker].squares) {
    const std::vector<HloValue> made = run(call, [&](const View& view, const TensorType& type) {
      return read_sum(view, type, worker, sum);
    });
    for (std::size_t i = 0; i < made.size(); ++i)
      own = written(own, b_.bitcast(made[i], "ui32"), word(call.outputs[i]) - window.first);
  }
  return own;
}

// The vector of the norm and its factor.
StepModule::HloValue StepModule::run_norm(const HloValue& squares) {
  const Call& call = step_.workers[0].norm;
  HloValue kept = values_[number_of(step_.workers[0].norm_values, 0)];
  const std::vector<HloValue> made = run(call, [&](const View& view, const TensorType& type) {
    return read(squares, word(view), type);
  });
  for (std::size_t i = 0; i < made.size(); ++i)
    kept = written(kept, b_.bitcast(made[i], "ui32"), word(call.outputs[i]));
  return kept;
}

// The worker's window of the sum, scaled.
StepModule::HloValue StepModule::run_scales(std::size_t worker, const HloValue& sum) {
  const StepProgram::Worker& of = step_.workers[worker];
  const HloValue norm_values = values_[number_of(of.norm_values, worker)];
  HloValue scaled = b_.bitcast(sum, "ui32");
  for (const Call& call : of.scales) {
    const std::vector<HloValue> made = run(call, [&](const View& view, const TensorType& type) {
      return is_sum(view) ? read_sum(view, type, worker, sum) : read(norm_values, word(view), type);
    });
    for (std::size_t i = 0; i < made.size(); ++i)
      scaled = written(scaled, b_.bitcast(made[i], "ui32"),
                       word(call.outputs[i]) - word(step_.sum) - sum_windows_[worker].first);
  }
  return b_.bitcast(scaled, "f32");
}

// The sums of squares of all devices, in their places.
StepModule::HloValue StepModule::gathered_squares(const HloValue& own) {
  if (workers() == 1) return own;
  const HloValue all = b_.all_gather(own, static_cast<std::int64_t>(workers()));
  HloValue squares =
      b_.integer("ui32", 0, Shape{words_of(step_.workers[0].norm.inputs[0]).words()});
  for (std::size_t w = 0; w < workers(); ++w) {
    const Window& window = square_windows_[w];
    if (window.begin == window.end) continue;
    const std::int64_t at =
        static_cast<std::int64_t>(w) * window.words + window.begin - window.first;
    squares = written(squares, b_.slice(all, 0, at, window.end - window.begin), window.begin);
  }
  return squares;
}

// This device's window of the sum, of a norm that has its limit. `finite` becomes whether the norm
// is, too.
StepModule::HloValue StepModule::clipped(HloValue& finite, const HloValue& sum) {
  std::vector<stablehlo::Builder::Branch> branches = {
      [&] { return std::vector{b_.integer("ui32", 0, Shape{square_windows_[0].words})}; }};
  for (std::size_t w = 0; w < workers(); ++w)
    branches.emplace_back([&, w] { return std::vector{run_squares(w, sum)}; });
  const HloValue squares = gathered_squares(b_.choose(of_device(finite), branches)[0]);

  HloValue& kept = values_[number_of(step_.workers[0].norm_values, 0)];
  const HloValue before = kept;
  const stablehlo::Builder::Branch norms[] = {[&] { return std::vector{before}; },
                                              [&] { return std::vector{run_norm(squares)}; }};
  kept = b_.choose(b_.convert(finite, "i32"), norms)[0];
  const HloValue values =
      b_.bitcast(b_.slice(kept, 0, word(step_.workers[0].norm_values), 2), "f32");
  const auto value = [&](std::int64_t i) { return b_.reshape(b_.slice(values, 0, i, 1), Shape{}); };
  const HloValue norm = value(0), factor = value(1);
  const HloValue norm_is_finite = b_.make(
      "i1", {}, cat("stablehlo.is_finite ", norm.name, " : (", norm.type(), ") -> tensor<i1>"));
  finite = b_.binary("and", finite, norm_is_finite);

  branches = {[&] { return std::vector{sum}; }};
  for (std::size_t w = 0; w < workers(); ++w)
    branches.emplace_back([&, w] { return std::vector{run_scales(w, sum)}; });
  const HloValue scales = b_.binary("and", finite, b_.compare("NE", factor, 1.0f));
  return b_.choose(of_device(scales), branches)[0];
}

// This device's window of a whole vector.
StepModule::HloValue StepModule::own_window(const HloValue& vector, const StepVector& of) {
  std::vector<HloValue> firsts;
  for (const Window& window : of.windows)
    firsts.push_back(b_.integer("i32", static_cast<std::uint64_t>(window.first), Shape{1}));
  const HloValue table = b_.concatenate(firsts, 0), device = b_.convert(b_.device_number(), "i32"),
                 first = b_.reshape(b_.dynamic_slice(table, device, 1), Shape{});
  return b_.dynamic_slice(vector, first, of.windows[0].words);
}

// The worker's windows of all vectors that updates write, anew. `values_` has them as they are.
std::vector<StepModule::HloValue> StepModule::run_updates(std::size_t worker, const HloValue& sum) {
  std::vector<HloValue> now = values_;
  const auto first_of = [&](std::size_t number) {
    const StepVector& vector = vectors_[number];
    return vector.windows.empty() ? 0 : vector.windows[worker].first;
  };
  for (const Call& call : step_.workers[worker].updates) {
    const std::vector<HloValue> made = run(call, [&](const View& view, const TensorType& type) {
      if (is_sum(view)) return read_sum(view, type, worker, sum);
      const std::size_t number = number_of(view, worker);
      return read(now[number], word(view) - first_of(number), type);
    });
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::size_t number = number_of(call.outputs[i], worker);
      now[number] = written(now[number], b_.bitcast(made[i], "ui32"),
                            word(call.outputs[i]) - first_of(number));
    }
  }
  std::vector<HloValue> windows;
  for (std::size_t i = 0; i < vectors_.size(); ++i)
    if (!vectors_[i].windows.empty()) windows.push_back(now[i]);
  return windows;
}

// A branch for each device, and one for a step that is refused.
void StepModule::update(const HloValue& finite, const HloValue& sum) {
  std::vector<std::size_t> targets;
  for (std::size_t i = 0; i < vectors_.size(); ++i)
    if (!vectors_[i].windows.empty()) targets.push_back(i);
  if (targets.empty()) return;
  const std::vector<HloValue> whole = values_;
  std::vector<HloValue> old;
  for (const std::size_t i : targets) {
    if (workers() > 1 && !vectors_[i].in_parts()) values_[i] = own_window(values_[i], vectors_[i]);
    old.push_back(values_[i]);
  }
  std::vector<stablehlo::Builder::Branch> branches = {[&] { return old; }};
  for (std::size_t w = 0; w < workers(); ++w)
    branches.emplace_back([this, w, &sum] { return run_updates(w, sum); });
  const std::vector<HloValue> windows = b_.choose(of_device(finite), branches);
  values_ = whole;
  if (workers() > 1) {
    gather(targets, windows);
  } else {
    for (std::size_t i = 0; i < targets.size(); ++i) values_[targets[i]] = windows[i];
  }
}

// The worker's hash words, of the values as they are now.
StepModule::HloValue StepModule::run_hashes(std::size_t worker) {
  const StepProgram::Worker& of = step_.workers[worker];
  HloValue words = values_[number_of(of.hash_words, worker)];
  for (const Call& call : of.hashes) {
    const std::vector<HloValue> made = run(call, [&](const View& view, const TensorType& type) {
      return read(values_[number_of(view, worker)], word(view), type);
    });
    for (std::size_t i = 0; i < made.size(); ++i)
      words = written(words, made[i], word(call.outputs[i]));
  }
  return words;
}

// In branches of their own, and only where they are wanted.
void StepModule::hash(const HloValue& finite) {
  const StepProgram::Worker& first = step_.workers[0];
  HloValue& words = values_[number_of(first.hash_words, 0)];
  const HloValue flags = values_[number_of(first.hash_wanted, 0)];
  const HloValue flag = b_.reshape(b_.slice(flags, 0, word(first.hash_wanted), 1), Shape{});
  std::vector<stablehlo::Builder::Branch> branches = {[&] { return std::vector{words}; }};
  for (std::size_t w = 0; w < workers(); ++w)
    branches.emplace_back([this, w] { return std::vector{run_hashes(w)}; });
  const HloValue wanted = b_.binary("and", finite, b_.compare("NE", flag, b_.integer("ui32", 0)));
  words = b_.choose(of_device(wanted), branches)[0];
}

// What replicas read goes to all devices.
void StepModule::gather(const std::vector<std::size_t>& targets,
                        const std::vector<HloValue>& windows) {
  std::vector<HloValue> own;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (vectors_[targets[i]].in_parts()) {
      values_[targets[i]] = windows[i];
    } else {
      own.push_back(windows[i]);
      length += windows[i].shape[0];
    }
  }
  if (own.empty()) return;
  const HloValue all = b_.all_gather(b_.concatenate(own, 0), static_cast<std::int64_t>(workers()));
  std::int64_t before = 0;
  for (const std::size_t target : targets) {
    const StepVector& vector = vectors_[target];
    if (vector.in_parts()) continue;
    for (std::size_t w = 0; w < workers(); ++w) {
      const Window& window = vector.windows[w];
      if (window.begin == window.end) continue;
      const std::int64_t at =
          static_cast<std::int64_t>(w) * length + before + window.begin - window.first;
      values_[target] =
          written(values_[target], b_.slice(all, 0, at, window.end - window.begin), window.begin);
    }
    before += vector.windows[0].words;
  }
}

}  // namespace podium::pjrt
