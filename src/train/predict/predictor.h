// The predictor: a trained network that predicts. It needs only a run folder: no dataset, no
// targets, no optimizer and no training programs.
//
//   podium::Predictor predictor = podium::Predictor::load("runs/mnist-seed0");
//   const podium::Tensor logits = predictor.logits(images);            // an ImageSet of n images
//   const auto shares = podium::probabilities(logits.f32().first(10)); // of the first image
//
// What is predicted of an example depends on the network and the example alone, not on the
// placement or on other examples of the batch, and they are those that evaluation uses. To evaluate
// a labelled set, use Trainer::evaluate (train/loop/trainer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"
#include "train/loop/trainer.h"

namespace podium {

// The network of a run at a checkpoint, ready to predict.
class Predictor {
 public:
  // Loads the network of a run's last intact checkpoint, or of the checkpoint `step`: "best" or a
  // number (kUsage if the run has no such checkpoint). `model` builds it; empty: the model that the
  // run's recipe names. Placement: 0 workers mean one per core; input_threads is ignored.
  // Throws UserError: kData if the folder contains no run or no checkpoint, if the checkpoint does
  // not fit the model (names the tensor), or if the network contains a value that is not finite
  // (names the tensor); kUsage for an impossible placement.
  static Predictor load(const std::filesystem::path& run, const Model& model = {},
                        const Placement& placement = {}, const std::string& step = "");
  // From a checkpoint in memory, such as Trainer::checkpoint() returns. Throws as load() does.
  Predictor(const Recipe& recipe, const Checkpoint& checkpoint, const Model& model = {},
            const Placement& placement = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  const Recipe& recipe() const;
  const Placement& placement() const;  // resolved
  std::int64_t step() const;           // of the checkpoint
  // Of the data that it was trained on, and the target among them.
  const std::vector<Field>& fields() const;
  const Field& target() const;
  // Of a network of images.
  const Shape& image_shape() const;  // [C, H, W]
  std::int64_t classes() const;
  std::string class_name(std::int64_t label) const;  // the label's number if it has no name

  // The network's first output, a row for each example, computed in batches by all workers. Targets
  // are not used. Images are normalised as the recipe says. Throws UserError(kData) if the examples
  // lack a field of the network's, or have it in another shape. Must not be called from two threads
  // at once.
  Tensor predict(const Source& examples);
  // The same of a network of images: logits [n, classes], as the mean over the recipe's
  // evaluation.views.
  Tensor logits(const Source& images) { return predict(images); }
  Tensor logits(const Tensor& images);  // [n, C, H, W], normalised already

 private:
  friend class Decoder;
  friend class SentenceDecoder;
  friend class AttentionReader;
  struct State;
  std::unique_ptr<State> state_;
};

// The softmax of one image's logits, in double precision.
std::vector<double> probabilities(std::span<const float> logits);

// The classes by decreasing logit; of equal logits, the smaller class number first.
std::vector<std::int64_t> ranking(std::span<const float> logits);

}  // namespace podium
