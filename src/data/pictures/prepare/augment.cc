#include "data/pictures/prepare/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/numerics/functions.h"
#include "base/numerics/reflect.h"
#include "base/words.h"
#include "data/pictures/prepare/draws.h"
#include "data/pictures/prepare/mirror.h"

namespace podium {
namespace {

// Uniform in [-most, most).
float symmetric(std::uint32_t word, float most) { return most * (2.0f * uniform01(word) - 1.0f); }
// Uniform among the whole numbers from -most to most.
std::int64_t symmetric_whole(std::uint32_t word, int most) {
  return static_cast<std::int64_t>(uniform_below(word, 2 * static_cast<std::uint32_t>(most) + 1)) -
         most;
}

// `v`, or the nearer of 0 and `most`; by value, so that the compiler makes vectors of it.
float within(float v, float most) {
  const float low = v > 0.0f ? v : 0.0f;
  return low < most ? low : most;
}

bool warps(const AugmentOptions& options) {
  return options.rotate_degrees != 0 || options.scale != 0 || options.shear != 0 ||
         options.elastic != 0;
}

// The four weights of a cubic B-spline at fraction `f` of a cell.
void spline_weights(double f, float weights[4]) {
  const double g = 1.0 - f;
  weights[0] = static_cast<float>(g * g * g / 6.0);
  weights[1] = static_cast<float>((4.0 - 6.0 * f * f + 3.0 * f * f * f) / 6.0);
  weights[2] = static_cast<float>((4.0 - 6.0 * g * g + 3.0 * g * g * g) / 6.0);
  weights[3] = static_cast<float>(f * f * f / 6.0);
}

// Where pixel `i` lies on the lattice: the first of its four points, and the fraction.
std::int64_t lattice_point(std::int64_t i, int cell, double* fraction) {
  const double t = (static_cast<double>(i) + 0.5) / cell;
  const auto first = static_cast<std::int64_t>(t);
  *fraction = t - static_cast<double>(first);
  return first;
}

}  // namespace

struct Augmenter::Scratch {
  std::vector<float> points;        // lattice: how far right [rows][columns], then how far down
  std::vector<float> x, y;          // [lanes]: where the pixels of a row come from
  std::vector<float> fx, fy;        // [height][lanes]: the same, as fractions between pixels
  std::vector<std::int32_t> index;  // [height][lanes]: and the pixel of `padded` above and left
  std::vector<float> padded;  // a plane within zeros, 1 before and 2 after: [height + 3][width + 3]
};

std::vector<OptionProblem> augment_problems(const AugmentOptions& options, std::int64_t height,
                                            std::int64_t width) {
  std::vector<OptionProblem> problems;
  const auto add = [&](const std::string& key, const std::string& what) {
    problems.push_back({"augment." + key, cat("`augment.", key, "` = ", what)});
  };
  const auto within = [&](const char* key, double value, double most) {
    if (value >= 0 && value <= most) return;
    add(key, cat(value, "; it must be between 0 and ", most));
  };
  const auto fits = [&](const char* key, double value, std::int64_t most) {
    if (value >= 0 && value <= static_cast<double>(most)) return;
    add(key, cat(value, ": the images are ", height, " x ", width,
                 " pixels; it must be between 0 and ", most));
  };
  const auto known = [&](const char* key, const std::string& word,
                         const std::vector<std::string>& words) {
    if (std::ranges::find(words, word) == words.end())
      add(key, cat("\"", word, "\" is unknown; known: ", join_words(words)));
  };
  const std::int64_t side = std::min(height, width);
  fits("shift", options.shift, side - 1);
  within("rotate_degrees", options.rotate_degrees, 180);
  within("scale", options.scale, 0.9);
  within("shear", options.shear, 2);
  fits("elastic", options.elastic, side);
  fits("cutout", options.cutout, side);
  within("brightness", options.brightness, 1);
  within("contrast", options.contrast, 1);
  within("saturation", options.saturation, 1);
  within("hue", options.hue, 0.5);
  if (options.elastic_cell < 1 || options.elastic_cell > 4096)
    add("elastic_cell", cat(options.elastic_cell, "; it must be between 1 and 4096 pixels"));
  known("flip", options.flip, {"none", "random", "alternating"});
  known("padding", options.padding, {"zero", "reflect"});
  if (options.padding == "reflect" && warps(options)) {
    std::vector<std::string> others;
    if (options.rotate_degrees != 0) others.push_back("`augment.rotate_degrees`");
    if (options.scale != 0) others.push_back("`augment.scale`");
    if (options.shear != 0) others.push_back("`augment.shear`");
    if (options.elastic != 0) others.push_back("`augment.elastic`");
    add("padding",
        cat("\"reflect\" works only with shifts by whole pixels and cannot be combined with ",
            join_words(others), "; use \"zero\", or set ", others.size() == 1 ? "that" : "those",
            " to 0"));
  }
  return problems;
}

Augmenter::Augmenter(const AugmentOptions& options, std::int64_t channels, std::int64_t height,
                     std::int64_t width)
    : options_(options),
      random_flip_(options.flip == "random"),
      alternating_flip_(options.flip == "alternating"),
      reflects_(options.padding == "reflect"),
      channels_(channels),
      height_(height),
      width_(width) {
  refuse(augment_problems(options, height, width));
  lanes_ = (width + 15) / 16 * 16;

  double fraction = 0;
  float weights[4];
  lattice_rows_ = lattice_point(height - 1, options.elastic_cell, &fraction) + 4;
  lattice_columns_ = lattice_point(width - 1, options.elastic_cell, &fraction) + 4;
  row_weights_.assign(static_cast<std::size_t>(height * lattice_rows_), 0.0f);
  column_weights_.assign(static_cast<std::size_t>(lattice_columns_ * lanes_), 0.0f);
  for (std::int64_t i = 0; i < height; ++i) {
    const std::int64_t first = lattice_point(i, options.elastic_cell, &fraction);
    spline_weights(fraction, weights);
    for (std::int64_t k = 0; k < 4; ++k) {
      row_weights_[static_cast<std::size_t>(i * lattice_rows_ + first + k)] = weights[k];
    }
  }
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t first = lattice_point(i, options.elastic_cell, &fraction);
    spline_weights(fraction, weights);
    for (std::int64_t k = 0; k < 4; ++k) {
      column_weights_[static_cast<std::size_t>((first + k) * lanes_ + i)] = weights[k];
    }
  }
}

bool is_mirrored(const AugmentOptions& options, const ExampleKey& key) {
  const auto drawn = [](const ExampleKey& k) {
    return Draws(k, AugmentKind::kFlip).block(0)[0] >> 31 != 0;
  };
  if (options.flip == "random") return drawn(key);
  return options.flip == "alternating" && drawn({key.seed, 0, key.example}) != (key.epoch % 2 != 0);
}

bool only_mirrors(const AugmentOptions& options) {
  return options.shift == 0 && !warps(options) && options.cutout == 0;
}

bool Augmenter::mirrors(const ExampleKey& key) const {
  return (random_flip_ || alternating_flip_) && is_mirrored(options_, key);
}

void Augmenter::apply(const ExampleKey& key, const float* in, float* out) const {
  const bool mirror = mirrors(key);
  std::int64_t down = 0;
  std::int64_t right = 0;
  if (options_.shift != 0) {
    const PhiloxBlock words = Draws(key, AugmentKind::kShift).block(0);
    down = symmetric_whole(words[0], options_.shift);
    right = symmetric_whole(words[1], options_.shift);
  }
  if (warps(options_)) {
    warp(key, down, right, mirror, in, out);
  } else {
    move(down, right, mirror, in, out);
  }
  if (options_.cutout != 0) cut(key, out);
}

void Augmenter::move(std::int64_t down, std::int64_t right, bool mirror, const float* in,
                     float* out) const {
  const std::int64_t first = std::max<std::int64_t>(right, 0);
  const std::int64_t end = width_ + std::min<std::int64_t>(right, 0);
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t y = 0; y < height_; ++y) {
      float* to = out + (c * height_ + y) * width_;
      std::int64_t from_y = y - down;
      if (from_y < 0 || from_y >= height_) {
        if (!reflects_) {
          std::fill_n(to, width_, 0.0f);
          continue;
        }
        from_y = reflected(from_y, height_);
      }
      const float* from = in + (c * height_ + from_y) * width_;
      const auto outside = [&](std::int64_t x) {
        if (!reflects_) return 0.0f;
        const std::int64_t from_x = reflected(x - right, width_);
        return from[mirror ? width_ - 1 - from_x : from_x];
      };
      for (std::int64_t x = 0; x < first; ++x) to[x] = outside(x);
      if (mirror) {
        for (std::int64_t x = first; x < end; ++x) to[x] = from[width_ - 1 - (x - right)];
      } else {
        std::copy_n(from + first - right, end - first, to + first);
      }
      for (std::int64_t x = end; x < width_; ++x) to[x] = outside(x);
    }
  }
}

// Output pixel (x, y) comes from
//   centre + rotation * shear * ((x, y) - centre - shift) / size + displacement(x, y).
void Augmenter::warp(const ExampleKey& key, std::int64_t down, std::int64_t right, bool mirror,
                     const float* in, float* out) const {
  thread_local Scratch scratch;
  for (std::vector<float>* row : {&scratch.x, &scratch.y}) {
    row->resize(static_cast<std::size_t>(lanes_));
  }
  const auto pixels = static_cast<std::size_t>(height_ * lanes_);
  scratch.fx.resize(pixels);
  scratch.fy.resize(pixels);
  scratch.index.resize(pixels);

  const PhiloxBlock words = Draws(key, AugmentKind::kAffine).block(0);
  const double turns = static_cast<double>(symmetric(words[0], options_.rotate_degrees)) / 360;
  const double sine = sin_2pi(turns), cosine = cos_2pi(turns);
  const double size = 1.0 + symmetric(words[1], options_.scale);
  const double slant = symmetric(words[2], options_.shear);
  // [[cosine, sine], [-sine, cosine]] * [[1, slant], [0, 1]] / size, for (x, y).
  const auto xx = static_cast<float>(cosine / size);
  const auto xy = static_cast<float>((cosine * slant + sine) / size);
  const auto yx = static_cast<float>(-sine / size);
  const auto yy = static_cast<float>((cosine - sine * slant) / size);
  if (options_.elastic != 0) draw_lattice(key, scratch);

  const float centre_x = static_cast<float>(width_ - 1) * 0.5f;
  const float centre_y = static_cast<float>(height_ - 1) * 0.5f;
  const float from_x = centre_x + static_cast<float>(right);
  const float from_y = centre_y + static_cast<float>(down);
  const auto most_x = static_cast<float>(width_ + 1);
  const auto most_y = static_cast<float>(height_ + 1);
  const auto stride = static_cast<std::int32_t>(width_ + 3);
  for (std::int64_t y = 0; y < height_; ++y) {
    // Coordinates of `padded`, whose first row and column lie at -1.
    float* __restrict const px = scratch.x.data();
    float* __restrict const py = scratch.y.data();
    const float dy = static_cast<float>(y) - from_y;
    const float start_x = xy * dy + (centre_x + 1.0f);
    const float start_y = yy * dy + (centre_y + 1.0f);
    for (std::int64_t x = 0; x < lanes_; ++x) {
      const float dx = static_cast<float>(static_cast<std::int32_t>(x)) - from_x;
      px[x] = xx * dx + start_x;
      py[x] = yx * dx + start_y;
    }
    if (options_.elastic != 0) displace(y, scratch);
    float* __restrict const fx = scratch.fx.data() + y * lanes_;
    float* __restrict const fy = scratch.fy.data() + y * lanes_;
    std::int32_t* __restrict const index = scratch.index.data() + y * lanes_;
    for (std::int64_t x = 0; x < lanes_; ++x) {
      const float sx = within(px[x], most_x);
      const float sy = within(py[x], most_y);
      const auto ix = static_cast<std::int32_t>(sx);
      const auto iy = static_cast<std::int32_t>(sy);
      fx[x] = sx - static_cast<float>(ix);
      fy[x] = sy - static_cast<float>(iy);
      index[x] = iy * stride + ix;
    }
  }
  resample(in, mirror, scratch, out);
}

// Moves each point of the lattice: 16 bits of a word for each direction.
void Augmenter::draw_lattice(const ExampleKey& key, Scratch& scratch) const {
  const auto points = static_cast<std::size_t>(lattice_rows_ * lattice_columns_);
  scratch.points.resize(2 * points);
  const Draws draws(key, AugmentKind::kElastic);
  const float unit = options_.elastic * 0x1p-15f;
  for (std::size_t i = 0; i < points; i += 4) {
    const PhiloxBlock block = draws.block(static_cast<std::uint32_t>(i / 4));
    for (std::size_t k = 0; k < std::min<std::size_t>(4, points - i); ++k) {
      scratch.points[i + k] = unit * (static_cast<float>(block[k] >> 16) - 32768.0f);
      scratch.points[points + i + k] = unit * (static_cast<float>(block[k] & 0xFFFF) - 32768.0f);
    }
  }
}

// Adds the lattice's B-spline to where row `y` comes from: the four lattice rows around it first,
// then all lattice columns in order, most of them by a weight of 0.
void Augmenter::displace(std::int64_t y, Scratch& scratch) const {
  const float* const right = scratch.points.data();
  const float* const down = right + lattice_rows_ * lattice_columns_;
  double fraction = 0;
  const std::int64_t first = lattice_point(y, options_.elastic_cell, &fraction);
  const float* const rows = row_weights_.data() + y * lattice_rows_;
  float* __restrict const px = scratch.x.data();
  float* __restrict const py = scratch.y.data();
  for (std::int64_t j = 0; j < lattice_columns_; ++j) {
    float along_x = 0.0f;
    float along_y = 0.0f;
    for (std::int64_t k = first; k < first + 4; ++k) {
      along_x += rows[k] * right[k * lattice_columns_ + j];
      along_y += rows[k] * down[k * lattice_columns_ + j];
    }
    const float* __restrict const columns = column_weights_.data() + j * lanes_;
    for (std::int64_t x = 0; x < lanes_; ++x) {
      px[x] += along_x * columns[x];
      py[x] += along_y * columns[x];
    }
  }
}

void Augmenter::resample(const float* in, bool mirror, Scratch& scratch, float* out) const {
  const std::int64_t stride = width_ + 3;
  scratch.padded.assign(static_cast<std::size_t>((height_ + 3) * stride), 0.0f);
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t y = 0; y < height_; ++y) {
      const float* from = in + (c * height_ + y) * width_;
      float* to = scratch.padded.data() + (y + 1) * stride + 1;
      if (mirror) {
        std::reverse_copy(from, from + width_, to);
      } else {
        std::copy_n(from, width_, to);
      }
    }
    for (std::int64_t y = 0; y < height_; ++y) {
      const float* const fx = scratch.fx.data() + y * lanes_;
      const float* const fy = scratch.fy.data() + y * lanes_;
      const std::int32_t* const index = scratch.index.data() + y * lanes_;
      float* const to = out + (c * height_ + y) * width_;
      for (std::int64_t x = 0; x < width_; ++x) {
        const float* const p = scratch.padded.data() + index[x];
        const float above = p[0] + fx[x] * (p[1] - p[0]);
        const float below = p[stride] + fx[x] * (p[stride + 1] - p[stride]);
        to[x] = above + fy[x] * (below - above);
      }
    }
  }
}

void Augmenter::cut(const ExampleKey& key, float* out) const {
  const PhiloxBlock words = Draws(key, AugmentKind::kCutout).block(0);
  const auto side = static_cast<std::int64_t>(options_.cutout);
  const std::int64_t top = uniform_below(words[0], static_cast<std::uint32_t>(height_ - side + 1));
  const std::int64_t left = uniform_below(words[1], static_cast<std::uint32_t>(width_ - side + 1));
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t y = top; y < top + side; ++y) {
      std::fill_n(out + (c * height_ + y) * width_ + left, side, 0.0f);
    }
  }
}

}  // namespace podium
