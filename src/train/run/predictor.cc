#include "train/run/predictor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/functions.h"
#include "base/thread_pool.h"
#include "data/pictures/loader.h"
#include "nn/models.h"
#include "train/loop/inference.h"
#include "train/plugin/plugin.h"
#include "train/run/environment.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

constexpr std::int64_t kMostAtOnce = 256;

// What the model takes and gives: what the checkpoint says, else the recipe's dataset.
struct Input {
  Shape image;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;
  Precision precision = Precision::kFp32;
};

Input input_of(const Recipe& recipe, const Checkpoint& checkpoint) {
  Input input;
  input.precision = precision_of(recipe);
  if (const auto text = checkpoint.metadata.find(kInputKey); text != checkpoint.metadata.end()) {
    std::vector<std::int64_t> numbers;
    const char* at = text->second.data();
    const char* const end = at + text->second.size();
    while (at < end) {
      std::int64_t number = 0;
      const auto [rest, error] = std::from_chars(at, end, number);
      if (error != std::errc() || number < 1 || number > (1 << 20)) break;
      numbers.push_back(number);
      at = rest + (rest < end && *rest == ' ' ? 1 : 0);
    }
    PODIUM_REQUIRE(at == end && numbers.size() == 4, ExitCode::kData, "the checkpoint of step ",
                   checkpoint.step, " states its model's input as \"", text->second,
                   "\", which is not channels, height, width and classes; restore it from a copy");
    input.image = Shape{numbers[0], numbers[1], numbers[2]};
    input.classes = numbers[3];
    if (const auto names = checkpoint.metadata.find(kClassNamesKey);
        names != checkpoint.metadata.end()) {
      input.class_names = parse_class_names(names->second);
      if (std::ssize(input.class_names) != input.classes) input.class_names.clear();
    }
    for (const DatasetInfo& info : dataset_list())
      if (info.name == recipe.data && info.classes == input.classes)
        input.class_names = info.class_names;
  } else {
    const DatasetInfo& info = find_dataset(recipe.data);
    input.image = Shape{info.channels, info.height, info.width};
    input.classes = info.classes;
    input.class_names = info.class_names;
  }
  return input;
}

std::int64_t resolved_workers(const Placement& placement) {
  const std::int64_t cores = usable_cores(), workers = placement.workers;
  if (workers == 0) {
    const int devices = make_device(placement.backend)->traits().devices;
    return devices == 0 ? cores : devices;
  }
  const int most = most_threads();
  PODIUM_REQUIRE(workers >= 1 && workers <= most, ExitCode::kUsage, "--workers ", workers,
                 ": 1 to ", most, " predict on this machine, where podium may use ", cores,
                 " cores");
  return workers;
}

}  // namespace

struct Predictor::State {
  Recipe recipe;
  std::int64_t step = 0;
  Model model;
  Placement placement;
  Input input;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<DeviceTensor> tensors;
  std::unique_ptr<ThreadPool> threads;
  std::int64_t most_at_once = kMostAtOnce;
  std::map<std::int64_t, std::vector<std::unique_ptr<Inference>>>
      streams;  // by batch, a worker each

  Graph program_of(std::int64_t images) const {
    return build_evaluation_program(model, {.image = input.image,
                                            .images = images,
                                            .classes = input.classes,
                                            .precision = input.precision});
  }

  // One for each worker, compiled when first asked for, of the batch for so many images: a power of
  // two, so that there are few programs; no larger than keeps all workers busy, or than fits into
  // half of the memory that this process may take.
  std::vector<std::unique_ptr<Inference>>& streams_for(std::int64_t images) {
    const std::int64_t share = (images + placement.workers - 1) / placement.workers;
    const auto rounded =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(share)));
    while (true) {
      const std::int64_t batch = std::min(most_at_once, rounded);
      std::vector<std::unique_ptr<Inference>>& own = streams[batch];
      if (!own.empty()) return own;
      const Graph graph = program_of(batch);
      if (batch > 1 &&
          device->plan(graph, {}).arena_bytes > usable_memory_bytes() / 2 / placement.workers) {
        streams.erase(batch);
        most_at_once = batch / 2;
        continue;
      }
      for (int w = 0; w < static_cast<int>(placement.workers); ++w)
        own.push_back(std::make_unique<Inference>(*device, w,
                                                  BoundExecutable(*device, graph, {.worker = w}),
                                                  graph, recipe.evaluation.views, tensors));
      return own;
    }
  }

  // `fill` writes normalised images [first, first + n).
  Tensor compute(std::int64_t count,
                 const std::function<void(std::int64_t first, std::int64_t n, float* to)>& fill) {
    Tensor result(DType::kF32, Shape{count, input.classes});
    if (count == 0) return result;
    auto& own = streams_for(count);
    const std::int64_t batch = own.front()->batch();
    std::atomic<std::int64_t> next{0};  // batch, for whichever worker is free
    threads->run(static_cast<int>(placement.workers), [&](int worker, int) {
      Inference& stream = *own[static_cast<std::size_t>(worker)];
      while (true) {
        const std::int64_t first = batch * next++;
        if (first >= count) break;
        const std::int64_t n = std::min(batch, count - first);
        fill(first, n, stream.images());
        stream.run();
        std::memcpy(result.f32().data() + first * input.classes, stream.logits(),
                    static_cast<std::size_t>(n * input.classes) * sizeof(float));
      }
    });
    return result;
  }

  void require_shape(const Shape& shape, const std::string& source) const {
    PODIUM_REQUIRE(shape == input.image, ExitCode::kData, source, ": images are ", to_string(shape),
                   " (channels, height, width), the model takes ", to_string(input.image));
  }
};

Predictor Predictor::load(const std::filesystem::path& run, const Model& model,
                          const Placement& placement, const std::string& step) {
  require_run(run);
  const Recipe recipe =
      read_run_recipe(run, {}, model ? ModelNames::kAny : ModelNames::kRegistered);
  return Predictor(recipe, checkpoint_of(run, step), model, placement);
}

Predictor::Predictor(const Recipe& recipe, const Checkpoint& checkpoint, const Model& model,
                     const Placement& placement)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.recipe = recipe;
  s.step = checkpoint.step;
  s.model = model ? model : Model(find_model(recipe.model).build);
  s.placement = placement;
  s.placement.workers = resolved_workers(placement);
  s.placement.input_threads = 0;
  s.input = input_of(recipe, checkpoint);
  s.device = make_device(s.placement.backend, {.workers = static_cast<int>(s.placement.workers),
                                               .threads = s.placement.threads});
  std::vector<TensorView> views;
  for (const NamedTensor& named : checkpoint.tensors) {
    if (named.name.starts_with(kOptimizerPrefix)) continue;
    const Tensor& tensor = named.tensor;
    PODIUM_REQUIRE(tensor.dtype() == DType::kF32, ExitCode::kData, "the checkpoint of step ",
                   s.step, " has \"", named.name, "\" as ", to_string(tensor.type()),
                   ", and parameters are f32; it was not written by podium train");
    Buffer& buffer = *s.buffers.emplace_back(s.device->allocate(tensor.type().bytes()));
    s.device->upload(buffer, tensor.data());
    s.tensors.push_back({named.name, tensor.type(), buffer});
    views.push_back({named.name, tensor.shape(), tensor.f32().data()});
  }
  const Graph one = s.program_of(1);
  const std::string problem = binding_problem(one, s.tensors);
  PODIUM_REQUIRE(problem.empty(), ExitCode::kData, "the checkpoint of step ", s.step,
                 " does not fit the model ", recipe.model, ", which ", problem,
                 "; give the model that it was trained with");
  const std::string bad = first_non_finite(views);
  PODIUM_REQUIRE(bad.empty(), ExitCode::kData, "the checkpoint of step ", s.step, ": \"", bad,
                 "\" contains a value that is not finite, so the network cannot predict; use an "
                 "earlier checkpoint, or train again with a smaller learning rate");
  s.threads = std::make_unique<ThreadPool>(static_cast<int>(s.placement.workers));
  if (recipe.evaluation.batch != 0) s.most_at_once = recipe.evaluation.batch;
}

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

const Recipe& Predictor::recipe() const { return state_->recipe; }
const Placement& Predictor::placement() const { return state_->placement; }
std::int64_t Predictor::step() const { return state_->step; }
const Shape& Predictor::image_shape() const { return state_->input.image; }
std::int64_t Predictor::classes() const { return state_->input.classes; }

std::string Predictor::class_name(std::int64_t label) const {
  const std::vector<std::string>& names = state_->input.class_names;
  return names.empty() ? std::to_string(label) : names.at(static_cast<std::size_t>(label));
}

Tensor Predictor::logits(const Source& images) {
  State& s = *state_;
  s.require_shape(Shape{images.channels, images.height, images.width}, images.source);
  if (const auto* set = dynamic_cast<const ImageSet*>(&images))
    PODIUM_REQUIRE(std::ssize(set->pixels) == set->count * set->image_bytes(), ExitCode::kData,
                   set->source, ": ", set->count, " images of ", set->image_bytes(),
                   " bytes are not ", set->pixels.size(), " bytes");
  const Normaliser normaliser(s.recipe.normalise, images.channels, images.height, images.width);
  return s.compute(images.count, [&](std::int64_t first, std::int64_t n, float* to) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(images.image_bytes()));
    for (std::int64_t i = 0; i < n; ++i) {
      float* const image = to + i * images.image_bytes();
      normaliser.start(images.read(first + i, nullptr, bytes.data()).pixels, image);
      normaliser.finish(image);
    }
  });
}

Tensor Predictor::logits(const Tensor& images) {
  State& s = *state_;
  const Shape& shape = images.shape();
  PODIUM_REQUIRE(images.dtype() == DType::kF32 && shape.rank() == 4, ExitCode::kData, "images are ",
                 to_string(images.type()), "; they must be f32 [images, channels, height, width]");
  s.require_shape(Shape{shape[1], shape[2], shape[3]}, "the tensor");
  const std::int64_t size = shape.elements_from(1);
  return s.compute(shape[0], [&](std::int64_t first, std::int64_t n, float* to) {
    std::memcpy(to, images.f32().data() + first * size,
                static_cast<std::size_t>(n * size) * sizeof(float));
  });
}

std::vector<double> probabilities(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  std::vector<double> values;
  for (const float logit : logits) values.push_back(exp_f64(static_cast<double>(logit) - most));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

std::vector<std::int64_t> ranking(std::span<const float> logits) {
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace podium
