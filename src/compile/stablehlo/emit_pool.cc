// Pooling and views.
#include <array>

#include "base/numerics/view.h"
#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {
namespace {

// [N, C, P, window_h, Q, window_w], whole windows alone.
HloValue windows_of(Builder& b, const HloValue& x, const PoolAttributes& a) {
  const Shape y = pooled(x.shape, a);
  const HloValue whole = b.slice(b.slice(x, 2, 0, y[2] * a.window_h), 3, 0, y[3] * a.window_w);
  return b.reshape(whole, Shape{y[0], y[1], y[2], a.window_h, y[3], a.window_w});
}

// Images of `shape` from their whole windows; what belongs to none is 0.
HloValue images_of(Builder& b, const HloValue& windows, const Shape& shape) {
  const Shape& w = windows.shape;
  const HloValue whole = b.reshape(windows, Shape{w[0], w[1], w[2] * w[3], w[4] * w[5]});
  const std::int64_t low[] = {0, 0, 0, 0};
  const std::int64_t high[] = {0, 0, shape[2] - whole.shape[2], shape[3] - whole.shape[3]};
  return b.pad(whole, low, high);
}

// A value of each window, for each of its pixels.
HloValue of_windows(Builder& b, const HloValue& x, const PoolAttributes& a) {
  const Shape& s = x.shape;
  const std::int64_t axes[] = {0, 1, 2, 4};
  return b.broadcast(x, Shape{s[0], s[1], s[2], a.window_h, s[3], a.window_w}, axes);
}

// Pixel (r, s) of each window.
HloValue pixel_of(Builder& b, const HloValue& windows, std::int64_t r, std::int64_t s) {
  const Shape& w = windows.shape;
  return b.reshape(b.slice(b.slice(windows, 3, r, 1), 5, s, 1), Shape{w[0], w[1], w[2], w[4]});
}

// Windows that lie a stride apart: the strides, and the extents of the padded image.
struct Strided {
  std::int64_t down, right, height, width;
  Strided(const PoolAttributes& a, const Shape& x)
      : down(a.stride_h == 0 ? a.window_h : a.stride_h),
        right(a.stride_w == 0 ? a.window_w : a.stride_w),
        height(x[2] + a.pad_top + a.pad_bottom),
        width(x[3] + a.pad_left + a.pad_right) {}
};

// Which pixel of each window, padding counted, is the largest inside the image.
Largest largest_of_strided(Builder& b, const HloValue& x, const PoolAttributes& a) {
  const Shape y = pooled(x.shape, a);
  const Strided strided(a, x.shape);
  const std::int64_t low[] = {0, 0, a.pad_top, a.pad_left},
                     high[] = {0, 0, a.pad_bottom, a.pad_right};
  const HloValue padded = b.pad(x, low, high), inside = b.pad(b.constant(1, x.shape), low, high);
  const auto pixel_at = [&](const HloValue& image, std::int64_t r, std::int64_t s) {
    return b.slice(b.slice(image, 2, r, y[2], strided.down), 3, s, y[3], strided.right);
  };
  Largest best;
  HloValue held_inside;
  for (std::int64_t r = 0; r < a.window_h; ++r) {
    for (std::int64_t s = 0; s < a.window_w; ++s) {
      const HloValue pixel = pixel_at(padded, r, s), is_inside = pixel_at(inside, r, s);
      const HloValue place = b.constant(static_cast<float>(r * a.window_w + s), pixel.shape);
      if (r == 0 && s == 0) {
        best = {pixel, place};
        held_inside = is_inside;
        continue;
      }
      const HloValue larger =
          b.binary("or", b.compare("GT", pixel, best.value), b.compare("NE", pixel, pixel));
      const HloValue takes = b.binary("and", b.compare("GT", is_inside, 0.0f),
                                      b.binary("or", larger, b.compare("EQ", held_inside, 0.0f)));
      best = {b.select(takes, pixel, best.value), b.select(takes, place, best.place)};
      held_inside = b.select(takes, is_inside, held_inside);
    }
  }
  return best;
}

// The sum of dy over the windows of which a pixel is the largest.
HloValue led_to_strided(Builder& b, const HloValue& dy, const HloValue& place, const Shape& x,
                        const PoolAttributes& a) {
  const Strided strided(a, x);
  HloValue sum;
  for (std::int64_t r = 0; r < a.window_h; ++r) {
    for (std::int64_t s = 0; s < a.window_w; ++s) {
      const HloValue here = b.compare("EQ", place, static_cast<float>(r * a.window_w + s));
      const HloValue term = b.select(here, dy, b.constant(0, dy.shape));
      const std::int64_t low[] = {0, 0, r, s},
                         between[] = {0, 0, strided.down - 1, strided.right - 1};
      const std::int64_t high[] = {0, 0,
                                   strided.height - r - ((dy.shape[2] - 1) * strided.down + 1),
                                   strided.width - s - ((dy.shape[3] - 1) * strided.right + 1)};
      const HloValue image = b.pad(term, low, high, between);
      sum = r == 0 && s == 0 ? image : b.add(sum, image);
    }
  }
  return b.slice(b.slice(sum, 2, a.pad_top, x[2]), 3, a.pad_left, x[3]);
}

}  // namespace

Largest largest_of_windows(Builder& b, const HloValue& x, const PoolAttributes& a) {
  const HloValue windows = windows_of(b, x, a);
  Largest best;
  for (std::int64_t r = 0; r < a.window_h; ++r) {
    for (std::int64_t s = 0; s < a.window_w; ++s) {
      const HloValue pixel = pixel_of(b, windows, r, s);
      const HloValue place = b.constant(static_cast<float>(r * a.window_w + s), pixel.shape);
      if (r == 0 && s == 0) {
        best = {pixel, place};
        continue;
      }
      const HloValue takes =
          b.binary("or", b.compare("GT", pixel, best.value), b.compare("NE", pixel, pixel));
      best = {b.select(takes, pixel, best.value), b.select(takes, place, best.place)};
    }
  }
  return best;
}

HloValue led_to_places(Builder& b, const HloValue& dy, const HloValue& place, const Shape& shape,
                       const PoolAttributes& a) {
  const HloValue spread = of_windows(b, dy, a);
  const Shape& w = spread.shape;
  const HloValue row = b.mul(b.iota("f32", w, 3), static_cast<float>(a.window_w));
  const HloValue own = b.add(row, b.iota("f32", w, 5));
  const HloValue here = b.compare("EQ", of_windows(b, place, a), own);
  return images_of(b, b.select(here, spread, b.constant(0, w)), shape);
}

std::vector<HloValue> emit_max_pool(const EmitContext& c) {
  const auto& a = c.as<PoolAttributes>();
  const auto sought = a.tiles() ? largest_of_windows : largest_of_strided;
  const Largest largest = sought(c.b, c.in[0], a);
  if (!a.places) return {largest.value};
  return {largest.value, largest.place};
}
std::vector<HloValue> emit_max_pool_grad(const EmitContext& c) {
  const auto& a = c.as<PoolAttributes>();
  const auto sought = a.tiles() ? largest_of_windows : largest_of_strided;
  const auto led = a.tiles() ? led_to_places : led_to_strided;
  const HloValue place = a.places ? c.in[1] : sought(c.b, c.in[1], a).place;
  return {led(c.b, c.in[0], place, c.out(), a)};
}

std::vector<HloValue> emit_avg_pool(const EmitContext& c) {
  const auto& a = c.as<PoolAttributes>();
  const std::int64_t axes[] = {3, 5};
  return {c.b.mul(c.b.sum(windows_of(c.b, c.in[0], a), axes), pool_share(a))};
}
std::vector<HloValue> emit_avg_pool_grad(const EmitContext& c) {
  const auto& a = c.as<PoolAttributes>();
  const HloValue shares = c.b.mul(c.in[0], pool_share(a));
  return {images_of(c.b, of_windows(c.b, shares, a), c.out())};
}

// Shifted views are mirrored at the centres of the edge pixels.
std::vector<HloValue> emit_view(const EmitContext& c) {
  Builder& b = c.b;
  const ViewPixels pixels(c.as<ViewAttributes>().index);
  HloValue x = c.in[0];
  const std::int64_t columns[] = {3};
  for (const std::int64_t axis : {std::int64_t{2}, std::int64_t{3}}) {
    const std::int64_t n = x.shape[axis];
    if (pixels.from() < 0) {
      const HloValue parts[] = {b.slice(x, axis, 1, 1), b.slice(x, axis, 0, n - 1)};
      x = b.concatenate(parts, axis);
    } else if (pixels.from() > 0) {
      const HloValue parts[] = {b.slice(x, axis, 1, n - 1), b.slice(x, axis, n - 2, 1)};
      x = b.concatenate(parts, axis);
    }
  }
  if (pixels.mirrors()) x = b.reverse(x, columns);
  return {x};
}

}  // namespace podium::stablehlo
