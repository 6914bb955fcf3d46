// MNIST: Y. LeCun, C. Cortes, C. Burges, http://yann.lecun.com/exdb/mnist. 60,000 and 10,000
// handwritten digits, white on black.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/datasets/dataset_list.h"
#include "data/pictures/formats/idx.h"

namespace podium {
namespace {

ImageSet load_mnist(const DatasetInfo& info, Split split, const DatasetOptions& options) {
  const std::vector<std::string> paths = require_files(info, split, options);
  const std::string remedy = fetch_remedy(info, options);
  const std::int64_t examples = split == Split::kTrain ? info.train_examples : info.test_examples;
  IdxData images =
      read_idx(paths[0], {3, remedy, {examples, info.height, info.width}, options.stop});
  IdxData labels = read_idx(paths[1], {1, remedy, {examples}, options.stop});

  ImageSet set;
  set.count = images.extents[0];
  set.channels = info.channels;
  set.height = images.extents[1];
  set.width = images.extents[2];
  set.classes = info.classes;
  set.source = std::filesystem::path(paths[0]).parent_path().string();
  PODIUM_REQUIRE(set.count > 0, ExitCode::kData, paths[0],
                 ": at byte 4: the file contains no images; ", remedy);
  PODIUM_REQUIRE(set.height == info.height && set.width == info.width, ExitCode::kData, paths[0],
                 ": at byte 8: the images are ", set.height, " x ", set.width,
                 " pixels; MNIST's are 28 x 28; ", remedy);
  PODIUM_REQUIRE(labels.extents[0] == set.count, ExitCode::kData, paths[1],
                 ": at byte 4: the file contains ", labels.extents[0], " labels, but ", paths[0],
                 " contains ", set.count, " images; the two files must match; ", remedy);
  const auto wrong = std::find_if(labels.bytes.begin(), labels.bytes.end(),
                                  [&](std::uint8_t label) { return label >= info.classes; });
  PODIUM_REQUIRE(wrong == labels.bytes.end(), ExitCode::kData, paths[1], ": at byte ",
                 8 + (wrong - labels.bytes.begin()), ": label ",
                 static_cast<int>(wrong == labels.bytes.end() ? 0 : *wrong),
                 " is out of range; labels are 0 to ", info.classes - 1, "; ", remedy);
  set.pixels = std::move(images.bytes);
  set.labels.assign(labels.bytes.begin(), labels.bytes.end());
  return set;
}

}  // namespace

DatasetInfo mnist_dataset() {
  DatasetInfo info;
  info.name = "mnist";
  info.description = "handwritten digits, 28 x 28, 60,000 to train and 10,000 to test";
  info.channels = 1;
  info.height = 28;
  info.width = 28;
  info.classes = 10;
  info.train_examples = 60000;
  info.test_examples = 10000;
  info.files = {
      {"train-images-idx3-ubyte", 47040016,
       "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", Split::kTrain},
      {"train-labels-idx1-ubyte", 60008,
       "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", Split::kTrain},
      {"t10k-images-idx3-ubyte", 7840016,
       "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", Split::kTest},
      {"t10k-labels-idx1-ubyte", 10008,
       "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", Split::kTest},
  };
  info.addresses = {"https://ossci-datasets.s3.amazonaws.com/mnist",
                    "https://storage.googleapis.com/cvdf-datasets/mnist"};
  info.load = load_mnist;
  return info;
}

}  // namespace podium
