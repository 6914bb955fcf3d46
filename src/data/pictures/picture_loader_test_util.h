// A loader of pictures as tests want it: one object of images, their values and the order.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "data/pictures/prepare/prepared_pictures.h"
#include "data/source/loader.h"

namespace podium {

struct PictureLoaderOptions {
  std::uint64_t seed = 0;
  std::int64_t batch = 1;
  AugmentOptions augment;
  NormaliseOptions normalise;
};

class PictureLoader : public Loader {
 public:
  PictureLoader(std::shared_ptr<const ImageSource> images, const PictureLoaderOptions& options)
      : Loader(prepared(images, {options.augment, options.normalise}),
               {.seed = options.seed, .batch = options.batch}),
        images_(std::move(images)) {}

  const ImageSource& images() const { return *images_; }
  const Normaliser& normaliser() const {
    return dynamic_cast<const PreparedPictures&>(set()).normaliser();
  }
  using Loader::examples;
  void examples(std::int64_t step, std::int64_t first, std::int64_t n, float* images,
                std::int32_t* labels) const {
    Loader::examples(step, first, n, {images, labels});
  }
  void example(std::int64_t epoch, std::int64_t index, float* image) const {
    const ExampleKey key{options().seed, epoch, index};
    std::int32_t label = 0;
    set().read(index, &key, {image, &label});
  }
  using Loader::in_order;
  void in_order(std::int64_t first, std::int64_t n, float* images, std::int32_t* labels) const {
    Loader::in_order(first, n, {images, labels});
  }

 private:
  std::shared_ptr<const ImageSource> images_;
};

}  // namespace podium
