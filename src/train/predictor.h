// The predictor: a trained network that answers for images. It needs a run's folder and nothing
// else: no dataset, no labels, no optimizer, no programs of training.
//
//   podium::Predictor predictor = podium::Predictor::load("runs/mnist-seed0");
//   const podium::Tensor logits = predictor.logits(images);            // an ImageSet of n images
//   const auto shares = podium::probabilities(logits.f32().first(10)); // of the first image
//
// What an image gives depends on the network and the image alone: neither on the placement nor on
// the images beside it, and it equals what evaluation counts. To evaluate a labelled set, use
// Trainer::evaluate (train/trainer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "train/trainer.h"

namespace podium {

class Predictor {
 public:
  // The network of a run's last checkpoint that is whole. `model` builds it; empty: the model that
  // the run's recipe names. Placement: 0 workers mean one for each core; input_threads is ignored.
  // Throws UserError: kData where the folder holds no run or no checkpoint, where the checkpoint
  // does not fit the model (it names the tensor), or where the network holds a value that is not
  // finite (it names the tensor); kUsage for a placement that cannot be.
  static Predictor load(const std::filesystem::path& run, const Model& model = {},
                        const Placement& placement = {});
  // Of a checkpoint in memory, such as Trainer::checkpoint() gives. Throws as load() does.
  Predictor(const Recipe& recipe, const Checkpoint& checkpoint, const Model& model = {},
            const Placement& placement = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  const Recipe& recipe() const;
  const Placement& placement() const;  // resolved
  std::int64_t step() const;           // of the checkpoint
  const Shape& image_shape() const;    // [C, H, W]
  std::int64_t classes() const;
  std::string class_name(std::int64_t label) const;  // the label's number where it has no name

  // Logits [n, classes] of n images, computed in batches by all workers: the mean over the recipe's
  // evaluation views (evaluation.views). Labels are not read. Throws UserError (kData) where the
  // images have another shape than image_shape(). Not to be called from two threads at once.
  Tensor logits(const ImageSet& images);  // bytes; normalised as the recipe says
  Tensor logits(const Tensor& images);    // [n, C, H, W], normalised already

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The softmax of one image's logits, in double precision.
std::vector<double> probabilities(std::span<const float> logits);

// The classes by falling logit; of equal ones, the smaller number first.
std::vector<std::int64_t> ranking(std::span<const float> logits);

}  // namespace podium
