#include "train/predict/predictor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/numerics/functions.h"
#include "base/thread_pool.h"
#include "data/pictures/prepare/prepared_pictures.h"
#include "nn/models.h"
#include "train/machine/environment.h"
#include "train/plugin/plugin.h"
#include "train/predict/predictor_state.h"
#include "train/run/rank_plan.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

// The fields of the data that the network was trained on: what the checkpoint says, else those of
// the recipe's dataset.
std::vector<Field> fields_for(const Recipe& recipe, const Checkpoint& checkpoint) {
  std::vector<Field> fields = fields_of(checkpoint);
  const bool states_words =
      std::ranges::any_of(fields, [](const Field& f) { return !f.words.empty(); });
  if (states_words) return fields;
  for (const DatasetInfo& info : dataset_list()) {
    if (info.name != recipe.data) continue;
    std::vector<Field> own =
        image_fields(info.channels, info.height, info.width, info.classes, info.class_names);
    if (fields.empty() || target_of(fields)->below == info.classes) return own;
  }
  if (fields.empty()) static_cast<void>(find_dataset(recipe.data));  // says that there is none
  return fields;
}

std::int64_t resolved_workers(const Placement& placement) {
  const std::int64_t cores = usable_cores(), workers = placement.workers;
  if (workers == 0) {
    const int devices = open_for(placement)->traits().devices;
    return devices == 0 ? cores : devices;
  }
  const int most = most_threads();
  PODIUM_REQUIRE(workers >= 1 && workers <= most, ExitCode::kUsage, "--workers ", workers,
                 ": 1 to ", most, " predict on this machine, where podium may use ", cores,
                 " cores");
  return workers;
}

void require_shape(const Shape& expected, const Shape& shape, const std::string& source) {
  PODIUM_REQUIRE(shape == expected, ExitCode::kData, source, ": images are ", to_string(shape),
                 " (channels, height, width), the model takes ", to_string(expected));
}

}  // namespace

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
  s.model = model ? model : model_of(recipe);
  s.placement = placement;
  s.placement.workers = resolved_workers(placement);
  s.placement.input_threads = 0;
  s.fields = fields_for(recipe, checkpoint);
  s.device = open_for(s.placement);
  static_cast<void>(precision_on(*s.device, recipe));  // before any work
  std::vector<TensorView> views;
  for (const NamedTensor& named : checkpoint.tensors) {
    if (!is_of_network(named.name)) continue;
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
  const std::span<const NamedValue> read = one.inputs();
  std::ranges::copy_if(s.fields, std::back_inserter(s.inputs), [&](const Field& field) {
    return std::ranges::find(read, field.name, &NamedValue::name) != read.end();
  });
  const std::string problem = binding_problem(one, s.tensors);
  PODIUM_REQUIRE(problem.empty(), ExitCode::kData, "the checkpoint of step ", s.step,
                 " does not fit the model ", recipe.model, ", which ", problem,
                 "; give the model that it was trained with");
  const std::string bad = first_non_finite(views);
  PODIUM_REQUIRE(bad.empty(), ExitCode::kData, "the checkpoint of step ", s.step, ": \"", bad,
                 "\" contains a value that is not finite, so the network cannot predict; use an "
                 "earlier checkpoint, or train again with a smaller learning rate");
  PODIUM_REQUIRE(!one.outputs().empty(), ExitCode::kData, "the model ", recipe.model,
                 " returns nothing to predict");
  s.output = one.outputs()[0].name;
  const Shape& row = one.shape(one.outputs()[0].value);
  // An example has as many rows of the output as it has items.
  const bool of_items = row[0] != 1;
  s.output_row = Shape({row.extents().begin() + (of_items ? 0 : 1), row.extents().end()});
  s.threads = std::make_unique<ThreadPool>(static_cast<int>(s.placement.workers));
  if (recipe.evaluation.batch != 0) s.most_at_once = recipe.evaluation.batch;
}

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

const Recipe& Predictor::recipe() const { return state_->recipe; }
const Placement& Predictor::placement() const { return state_->placement; }
std::int64_t Predictor::step() const { return state_->step; }
const std::vector<Field>& Predictor::fields() const { return state_->fields; }

const Field& Predictor::target() const {
  const Field* const target = target_of(state_->fields);
  PODIUM_REQUIRE(target != nullptr, ExitCode::kData, "the run of recipe ", state_->recipe.name,
                 " has no single target, but ", to_text(state_->fields));
  return *target;
}

const Shape& Predictor::image_shape() const { return state_->inputs.at(0).shape; }
std::int64_t Predictor::classes() const { return target().below; }
std::string Predictor::class_name(std::int64_t label) const { return word_of(target(), label); }

Tensor Predictor::predict(const Source& examples) {
  State& s = *state_;
  if (const ImageSource* images = images_of(examples)) {
    require_shape(s.inputs[0].shape, Shape{images->channels, images->height, images->width},
                  images->source);
    if (const auto* set = dynamic_cast<const ImageSet*>(images))
      PODIUM_REQUIRE(std::ssize(set->pixels) == set->count * set->image_bytes(), ExitCode::kData,
                     set->source, ": ", set->count, " images of ", set->image_bytes(),
                     " bytes are not ", set->pixels.size(), " bytes");
  }
  // Not owned: it outlives the call.
  const std::shared_ptr<const Source> own =
      prepared({std::shared_ptr<const Source>(), &examples}, {{}, s.recipe.normalise});
  const std::vector<Field> fields = own->fields();
  // Where each field goes: to an input of the network, or nowhere.
  std::vector<std::ptrdiff_t> places;
  for (const Field& field : fields) {
    const auto found = std::ranges::find(s.inputs, field.name, &Field::name);
    places.push_back(found == s.inputs.end() ? -1 : found - s.inputs.begin());
  }
  for (const Field& input : s.inputs) {
    const Field* const found = find_field(fields, input.name);
    PODIUM_REQUIRE(found != nullptr && found->shape == input.shape && found->dtype == input.dtype,
                   ExitCode::kData, examples.origin(), " has ", to_text(fields),
                   ", and the network was trained on ", to_text(s.fields));
  }
  return s.compute(examples.examples(), [&](std::int64_t first, std::int64_t n, FieldMemory to) {
    std::vector<std::vector<std::byte>> unread(fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (places[i] < 0) unread[i].resize(static_cast<std::size_t>(fields[i].bytes()));
    std::vector<void*> row(fields.size());
    for (std::int64_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < fields.size(); ++i)
        row[i] = places[i] < 0 ? unread[i].data()
                               : to.at<std::byte>(static_cast<std::size_t>(places[i])) +
                                     k * fields[i].bytes();
      own->read(first + k, nullptr, row);
    }
  });
}

Tensor Predictor::logits(const Tensor& images) {
  State& s = *state_;
  const Shape& shape = images.shape();
  PODIUM_REQUIRE(images.dtype() == DType::kF32 && shape.rank() == 4, ExitCode::kData, "images are ",
                 to_string(images.type()), "; they must be f32 [images, channels, height, width]");
  require_shape(s.inputs[0].shape, Shape{shape[1], shape[2], shape[3]}, "the tensor");
  const std::int64_t size = shape.elements_from(1);
  return s.compute(shape[0], [&](std::int64_t first, std::int64_t n, FieldMemory to) {
    std::memcpy(to[0], images.f32().data() + first * size,
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
