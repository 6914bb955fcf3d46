#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "data/pictures/image_set.h"
#include "data/pictures/picture_loader_test_util.h"
#include "data/source/prefetch.h"
#include "data/source/shuffle.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

// 103 pictures of 2 x 3 pixels; picture i's first pixel is i.
std::shared_ptr<const ImageSet> small_set(std::int64_t channels = 1) {
  auto set = std::make_shared<ImageSet>();
  set->count = 103;
  set->channels = channels;
  set->height = 2;
  set->width = 3;
  set->classes = 10;
  set->pixels.resize(static_cast<std::size_t>(set->count * set->image_bytes()));
  for (std::int64_t i = 0; i < set->count; ++i) {
    for (std::int64_t j = 0; j < set->image_bytes(); ++j) {
      set->pixels[static_cast<std::size_t>(i * set->image_bytes() + j)] =
          static_cast<std::uint8_t>(i + 50 * j);
    }
    set->labels.push_back(static_cast<std::uint8_t>(i % 10));
  }
  return set;
}

PictureLoaderOptions options_of(std::int64_t batch, std::uint64_t seed = 0) {
  PictureLoaderOptions options;
  options.batch = batch;
  options.seed = seed;
  return options;
}

struct Made {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  bool operator==(const Made&) const = default;
};

Made make(const PictureLoader& loader, std::int64_t step, std::int64_t first, std::int64_t n) {
  Made made;
  made.images.resize(static_cast<std::size_t>(n * loader.images().image_bytes()));
  made.labels.resize(static_cast<std::size_t>(n));
  loader.examples(step, first, n, made.images.data(), made.labels.data());
  return made;
}

TEST(Loader, pixels_are_divided_by_255_correctly_rounded) {
  auto set = std::make_shared<ImageSet>();
  set->count = 1;
  set->channels = 1;
  set->height = 16;
  set->width = 16;
  set->classes = 1;
  set->labels = {0};
  for (int i = 0; i < 256; ++i) set->pixels.push_back(static_cast<std::uint8_t>(i));
  const PictureLoader loader(set, options_of(1));
  const Made made = make(loader, 0, 0, 1);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(made.images[i], static_cast<float>(i) / 255.0f) << i;
  }
}

TEST(Loader, standardises_each_channel_by_its_own_mean_and_deviation) {
  PictureLoaderOptions options = options_of(1);
  options.normalise = {"per-channel", {0.5, 0.25}, {0.2, 0.1}};
  const auto set = small_set(2);
  const PictureLoader loader(set, options);
  std::vector<float> image(12);
  std::int32_t label = 0;
  loader.in_order(7, 1, image.data(), &label);
  for (std::size_t i = 0; i < 12; ++i) {
    const float pixel = static_cast<float>(set->pixels[7 * 12 + i]) / 255.0f;
    EXPECT_EQ(image[i], i < 6 ? (pixel - 0.5f) / 0.2f : (pixel - 0.25f) / 0.1f);
  }
}

// Per-channel normalisation comes before augmentation: what moves in is the mean, 0.
TEST(Loader, what_a_shift_moves_in_is_the_mean) {
  PictureLoaderOptions options = options_of(1);
  options.normalise = {"per-channel", {0.9}, {0.1}};
  options.augment.shift = 1;
  const PictureLoader loader(small_set(), options);
  options.augment = {};
  const PictureLoader still(small_set(), options);
  int zeros = 0;
  std::vector<float> moved(6), image(6);
  for (std::int64_t i = 0; i < 50; ++i) {
    loader.example(0, i, moved.data());
    still.example(0, i, image.data());
    for (const float v : moved) {
      zeros += v == 0.0f ? 1 : 0;
      EXPECT_TRUE(v == 0.0f || std::ranges::count(image, v) == 1);
    }
  }
  EXPECT_GT(zeros, 50);
}

// Per-image normalisation comes after augmentation: it sees the zeros that moved in.
TEST(Loader, images_are_standardised_after_augmentation_and_without_it_in_evaluation) {
  PictureLoaderOptions options = options_of(1);
  options.normalise = {"per-image", {}, {}};
  options.augment.cutout = 1;
  const PictureLoader loader(small_set(), options);
  std::vector<float> image(6), plain(6);
  std::int32_t label = 0;
  int changed = 0;
  const auto expect_standard = [](const std::vector<float>& values) {
    double sum = 0, squares = 0;
    for (const float v : values) sum += v, squares += static_cast<double>(v) * v;
    EXPECT_NEAR(sum, 0, 1e-5);
    EXPECT_LE(squares / 6, 1 + 1e-5);  // below 1 where the image is nearly flat
    EXPECT_GT(squares / 6, 0.01);
  };
  for (std::int64_t i = 0; i < 100; ++i) {
    loader.example(3, i, image.data());
    expect_standard(image);
    loader.in_order(i, 1, plain.data(), &label);
    expect_standard(plain);
    changed += image == plain ? 0 : 1;
  }
  EXPECT_GT(changed, 90);  // a cut pixel may have been 0 before
}

TEST(Loader, an_image_that_is_only_mirrored_has_the_bits_of_the_augmenter) {
  for (const char* flip : {"random", "alternating"}) {
    PictureLoaderOptions options = options_of(1, 5);
    options.normalise = {"per-channel", {0.4, 0.5, 0.6}, {0.2, 0.3, 0.4}};
    options.augment.flip = flip;
    const PictureLoader loader(small_set(3), options);
    const Augmenter augmenter(options.augment, 3, 2, 3);
    std::vector<float> image(18), plain(18), expected(18);
    std::int32_t label = 0;
    int mirrored = 0;
    for (std::int64_t i = 0; i < 100; ++i) {
      loader.example(3, i, image.data());
      loader.in_order(i, 1, plain.data(), &label);
      augmenter.apply({5, 3, i}, plain.data(), expected.data());
      EXPECT_EQ(image, expected);
      mirrored += image == plain ? 0 : 1;
    }
    EXPECT_GT(mirrored, 25);
    EXPECT_LT(mirrored, 75);
  }
}

TEST(Loader, an_example_of_an_epoch_is_that_of_its_batch) {
  PictureLoaderOptions options = options_of(103, 4);
  options.augment.shift = 1;
  options.augment.flip = "alternating";
  options.normalise.name = "per-image";
  const PictureLoader loader(small_set(), options);
  for (const std::int64_t epoch : {0, 1, 5}) {
    const Made made = make(loader, epoch, 0, 103);
    const auto order = epoch_order(4, epoch, 103);
    std::vector<float> image(6);
    for (std::size_t i = 0; i < 103; ++i) {
      loader.example(epoch, order[i], image.data());
      EXPECT_TRUE(std::equal(image.begin(), image.end(),
                             made.images.begin() + static_cast<std::ptrdiff_t>(6 * i)));
    }
  }
}

TEST(Loader, an_epoch_shows_each_example_at_most_once_and_drops_the_remainder) {
  const PictureLoader loader(small_set(), options_of(10));
  EXPECT_EQ(loader.steps_per_epoch(), 10);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<float> seen;
    for (std::int64_t step = 0; step < 10; ++step) {
      const Made made = make(loader, epoch * 10 + step, 0, 10);
      for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_TRUE(seen.insert(made.images[i * 6]).second);
        EXPECT_EQ(made.labels[i], static_cast<int>(made.images[i * 6] * 255.0f + 0.5f) % 10);
      }
    }
    EXPECT_EQ(seen.size(), 100u);
  }
}

TEST(Loader, batches_follow_the_epoch_order) {
  const auto set = small_set();
  const PictureLoader loader(set, options_of(10, 9));
  const auto order = epoch_order(9, 2, 103);
  const Made made = make(loader, 23, 0, 10);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(made.images[i * 6], static_cast<float>(order[30 + i]) / 255.0f);
  }
}

TEST(Loader, slices_are_the_same_whoever_asks_and_when) {
  PictureLoaderOptions options = options_of(12, 3);
  options.augment.shift = 1;
  options.augment.rotate_degrees = 10;
  const PictureLoader one(small_set(), options);
  const Made whole = make(one, 17, 0, 12);
  for (const std::int64_t size : {1, 3, 4, 6}) {
    const PictureLoader another(small_set(), options);
    for (std::int64_t first = 12 - size; first >= 0; first -= size) {
      make(another, first, 0, 1);  // other steps between
      const Made part = make(another, 17, first, size);
      EXPECT_TRUE(
          std::equal(part.images.begin(), part.images.end(), whole.images.begin() + first * 6));
      EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), whole.labels.begin() + first));
    }
  }
}

TEST(Loader, augments_the_same_example_anew_in_each_epoch) {
  PictureLoaderOptions options = options_of(103);
  options.augment.shift = 1;
  const PictureLoader loader(small_set(), options);
  const Made first = make(loader, 0, 0, 103);
  const Made second = make(loader, 1, 0, 103);
  const auto order0 = epoch_order(0, 0, 103);
  const auto order1 = epoch_order(0, 1, 103);
  int changed = 0;
  for (std::size_t i = 0; i < 103; ++i) {
    const auto j = static_cast<std::size_t>(std::find(order1.begin(), order1.end(), order0[i]) -
                                            order1.begin());
    changed += std::equal(first.images.begin() + static_cast<long>(i * 6),
                          first.images.begin() + static_cast<long>(i * 6 + 6),
                          second.images.begin() + static_cast<long>(j * 6))
                   ? 0
                   : 1;
  }
  EXPECT_GT(changed, 60);  // eight in nine, less those that hide it
}

TEST(Loader, evaluation_is_in_file_order_and_never_augmented) {
  PictureLoaderOptions options = options_of(5);
  options.augment.shift = 1;
  const PictureLoader loader(small_set(), options);
  std::vector<float> images(103 * 6);
  std::vector<std::int32_t> labels(103);
  loader.in_order(0, 50, images.data(), labels.data());
  loader.in_order(50, 53, images.data() + 300, labels.data() + 50);
  for (std::size_t i = 0; i < 103; ++i) {
    EXPECT_EQ(images[i * 6], static_cast<float>(i) / 255.0f);
    EXPECT_EQ(labels[i], static_cast<std::int32_t>(i % 10));
  }
}

TEST(Loader, many_threads_get_the_same_bytes) {
  PictureLoaderOptions options = options_of(10, 5);
  options.augment.shift = 1;
  options.augment.elastic = 1;
  const PictureLoader quiet(small_set(), options);
  std::vector<Made> expected;
  for (std::int64_t step = 0; step < 60; ++step) expected.push_back(make(quiet, step, 0, 10));
  const PictureLoader shared(small_set(), options);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t step = t % 2; step < 60; ++step) {
        EXPECT_EQ(make(shared, step, 0, 10), expected[static_cast<std::size_t>(step)]);
      }
    });
  }
}

TEST(Loader, refuses_a_batch_larger_than_the_set_and_options_that_do_not_fit) {
  EXPECT_CONTAINS(
      user_error(ExitCode::kUsage, [] { const PictureLoader bad(small_set(), options_of(104)); }),
      "batch is 104, but the training set has 103 examples");
  PictureLoaderOptions options = options_of(1);
  options.normalise = {"per-channel", {0, 0, 0}, {1}};
  EXPECT_CONTAINS(
      user_error(ExitCode::kUsage, [&] { const PictureLoader bad(small_set(), options); }),
      "`normalise.mean` has 3 numbers; the images have 1 channel");
  options.normalise = {"per-channel", {0}, {0}};
  EXPECT_CONTAINS(
      user_error(ExitCode::kUsage, [&] { const PictureLoader bad(small_set(), options); }),
      "must be above 0");
}

TEST(Prefetcher, yields_the_bytes_of_the_loader_for_any_threads_depth_and_readers) {
  PictureLoaderOptions options = options_of(10, 5);
  options.augment.shift = 1;
  const auto loader = std::make_shared<const PictureLoader>(small_set(), options);
  for (const int threads : {1, 3}) {
    for (const int depth : {1, 2, 5}) {
      for (const int readers : {1, 2}) {
        Prefetcher prefetcher(loader, {.first_step = 7,
                                       .end_step = 40,
                                       .threads = threads,
                                       .depth = depth,
                                       .readers = readers});
        std::vector<std::jthread> workers;
        for (int reader = 0; reader < readers; ++reader) {
          workers.emplace_back([&] {
            for (std::int64_t step = 7; step < 40; ++step) {
              const Prefetcher::Batch& batch = prefetcher.wait(step);
              const Made expected = make(*loader, step, 0, 10);
              EXPECT_TRUE(std::equal(expected.images.begin(), expected.images.end(),
                                     batch.fields[0].f32().begin()));
              EXPECT_TRUE(std::equal(expected.labels.begin(), expected.labels.end(),
                                     batch.fields[1].i32().begin()));
              prefetcher.release(step);
            }
          });
        }
        workers.clear();
        EXPECT_GE(prefetcher.seconds_waited(), 0);
      }
    }
  }
}

TEST(Prefetcher, stops_at_any_point) {
  const auto loader = std::make_shared<const PictureLoader>(small_set(), options_of(10));
  for (std::int64_t used = 0; used < 6; ++used) {
    Prefetcher prefetcher(loader, {.end_step = 1000000, .threads = 2, .depth = 3});
    for (std::int64_t step = 0; step < used; ++step) {
      prefetcher.wait(step);
      if (step + 1 < used) prefetcher.release(step);
    }
  }
}

TEST(Prefetcher, counts_the_time_that_readers_wait) {
  // With one slot the next batch is begun when the last is released, and the reader, who has
  // nothing else to do, is there before it: at one of these steps at least, however busy the
  // machine.
  auto set = std::make_shared<ImageSet>();
  set->count = 20000;
  set->channels = set->height = set->width = set->classes = 1;
  set->pixels.resize(20000);
  set->labels.resize(20000);
  const auto loader = std::make_shared<const PictureLoader>(set, options_of(20000));
  Prefetcher prefetcher(loader, {.end_step = 20, .depth = 1});
  for (std::int64_t step = 0; step < 20; ++step) {
    prefetcher.wait(step);
    prefetcher.release(step);
  }
  EXPECT_GT(prefetcher.seconds_waited(), 0);
}

}  // namespace
}  // namespace podium
