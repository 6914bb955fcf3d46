// CIFAR-10: A. Krizhevsky, Learning multiple layers of features from tiny images, 2009;
// https://www.cs.toronto.edu/~kriz/cifar.html. 50,000 and 10,000 colour photographs of ten classes.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "data/datasets/dataset_list.h"
#include "data/pictures/formats/cifar.h"
#include "files/archive.h"

namespace podium {
namespace {

// The records of one file, which must be as many as its length says.
ImageSet read_file(const DatasetFile& file, ByteSource& bytes, const std::string& name,
                   const std::string& remedy, StopToken stop = {}) {
  ImageSet set = cifar_set();
  append_cifar(bytes, name, remedy, file.bytes / kCifarRecord, set, stop);
  PODIUM_REQUIRE(set.count * kCifarRecord == file.bytes, ExitCode::kData, name, ": contains ",
                 set.count, " images instead of ", file.bytes / kCifarRecord, "; ", remedy);
  return set;
}

ImageSet read_split(const DatasetInfo& info, Split split, const std::vector<std::string>& paths,
                    const std::string& remedy, StopToken stop = {}) {
  std::vector<const DatasetFile*> files;
  for (const DatasetFile& file : info.files)
    if (file.split == split) files.push_back(&file);
  // Each file's examples go where its place among the files is.
  ImageSet set = cifar_set();
  std::vector<std::int64_t> starts;
  for (const DatasetFile* file : files) {
    starts.push_back(set.count);
    set.count += file->bytes / kCifarRecord;
  }
  set.pixels.resize(static_cast<std::size_t>(set.count * set.image_bytes()));
  set.labels.resize(static_cast<std::size_t>(set.count));
  std::set<std::string> read;  // names of files
  const auto take = [&](std::size_t i, ByteSource& bytes, const std::string& name) {
    const ImageSet part = read_file(*files[i], bytes, name, remedy, stop);
    std::ranges::copy(part.pixels, set.pixels.begin() + starts[i] * set.image_bytes());
    std::ranges::copy(part.labels, set.labels.begin() + starts[i]);
    read.insert(files[i]->name);
  };
  if (is_archive(info, paths[0])) {
    read_archive(paths[0], remedy, [&](const std::string& member, ByteSource& bytes) {
      const std::string name = std::filesystem::path(member).filename().string();
      for (std::size_t i = 0; i < files.size(); ++i) {
        if (files[i]->name == name && !read.contains(name))
          take(i, bytes, cat(paths[0], ": in ", member));
      }
      return read.size() < files.size();
    });
  } else {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto bytes = open_file(paths.at(i), remedy);
      take(i, *bytes, paths[i]);
    }
  }
  set.source = is_archive(info, paths[0]) ? paths[0]
                                          : std::filesystem::path(paths[0]).parent_path().string();
  for (const DatasetFile* file : files)
    PODIUM_REQUIRE(read.contains(file->name), ExitCode::kData, paths[0], ": does not contain ",
                   file->name, "; ", remedy);
  return set;
}

ImageSet load_cifar10(const DatasetInfo& info, Split split, const DatasetOptions& options) {
  return read_split(info, split, require_files(info, split, options), fetch_remedy(info, options),
                    options.stop);
}

std::uint64_t digest(const DatasetInfo& info, Split split, const std::vector<std::string>& paths,
                     const std::string& remedy) {
  return cifar_digest(read_split(info, split, paths, remedy));
}

void check_file(const DatasetFile& file, const std::string& path, const std::string& remedy) {
  read_file(file, *open_file(path, remedy), path, remedy);
}

}  // namespace

DatasetInfo cifar10_dataset() {
  DatasetInfo info;
  info.name = "cifar10";
  info.description =
      "colour photographs of ten classes, 32 x 32, 50,000 to train and 10,000 to test";
  info.channels = kCifarChannels;
  info.height = info.width = kCifarSide;
  info.classes = kCifarClasses;
  info.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                      "dog",      "frog",       "horse", "ship", "truck"};
  info.train_examples = 50000;
  info.test_examples = 10000;
  constexpr std::int64_t kBytes = 10000 * kCifarRecord;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin"})
    info.files.push_back({name, kBytes, "", Split::kTrain});
  info.files.push_back({"test_batch.bin", kBytes, "", Split::kTest});
  info.archive = {"cifar-10-binary.tar.gz", "cifar-10-batches-bin",
                  "c32a1d4ab5d03f1284b67883e8d87530"};
  info.addresses = {"https://www.cs.toronto.edu/~kriz"};
  info.load = load_cifar10;
  info.digest = digest;
  info.check_file = check_file;
  info.digests = {0xe5ff232bf34b19e4, 0xcbedc5f1f3a8dd44};
  return info;
}

}  // namespace podium
