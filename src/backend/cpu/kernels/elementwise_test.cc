#include "backend/cpu/kernels/elementwise.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/kernel_test_util.h"
#include "backend/cpu/kernels/update.h"

namespace podium::cpu {
namespace {

const std::int64_t kCounts[] = {1, 15, 16, 17, 1000, 16384, 16385, 50001};

Floats map(const Floats& a, const Floats& b, const std::function<float(float, float)>& f) {
  Floats out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = f(a[i], b[i]);
  return out;
}

// How parameters lie and are written.
struct Way {
  bool whole_lines, shared;
};
constexpr Way kWays[] = {{true, false}, {true, true}, {false, true}};

// Guarded values that begin with a whole line or beside one.
class Parameters {
 public:
  Parameters(const Floats& values, bool whole) : size_(values.size()), memory_(size_ + 64, kNan) {
    begin_ = 16;
    while (cpu::whole_lines(&memory_[begin_]) != whole) ++begin_;
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return memory_.data() + begin_; }
  Floats take() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool given = i >= begin_ && i < begin_ + size_;
      EXPECT_TRUE(given || std::isnan(memory_[i])) << i << " is not the kernel's to write";
    }
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {begin, begin + static_cast<std::ptrdiff_t>(size_)};
  }

 private:
  std::size_t size_, begin_ = 0;
  Floats memory_;
};

TEST(Elementwise, equals_one_rounding_each_for_every_length) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t count : kCounts) {
      const std::string what = cat(target, " ", count);
      Random random(static_cast<unsigned>(count));
      Floats a = random.numbers(count), b = random.numbers(count);
      a[count / 2] = kNan;
      const auto check = [&](auto kernel, const std::function<float(float, float)>& f) {
        Guarded y(count);
        run_parts(flat_parts(count), [&](int part) { kernel(y.data(), part); });
        expect_same(y.take(what), map(a, b, f), what);
      };
      for (const Activation& activation : kActivations) {
        check([&](float* y, int p) { activate(count, activation, a.data(), y, p); },
              [&](float x, float) { return activate_f32(activation, x); });
        check([&](float* y, int p) { activate_grad(count, activation, b.data(), a.data(), y, p); },
              [&](float x, float dy) { return activate_grad_f32(activation, dy, x); });
      }
      for (const Way way : kWays) {
        Parameters out(Floats(a.size()), way.whole_lines);
        run_parts(flat_parts(count), [&](int part) {
          combine(count, 3.5f, a.data(), -0.3f, b.data(), out.data(), way.shared, part);
        });
        expect_same(out.take(),
                    map(a, b, [](float x, float y) { return std::fma(3.5f, x, -0.3f * y); }), what);
      }
      check([&](float* y, int p) { add(count, a.data(), b.data(), y, p); }, std::plus<float>());
      check([&](float* y, int p) { sub(count, a.data(), b.data(), y, p); }, std::minus<float>());
      check([&](float* y, int p) { mul(count, a.data(), b.data(), y, p); },
            std::multiplies<float>());
      check([&](float* y, int p) { scale(count, a.data(), 0.3f, y, p); },
            [](float x, float) { return x * 0.3f; });
      check([&](float* y, int p) { divide(count, a.data(), 3, y, p); },
            [](float x, float) { return x / 3; });
      check([&](float* y, int p) { fill(count, 2.5f, y, p); }, [](float, float) { return 2.5f; });

      Floats sum = a;
      run_parts(flat_parts(count), [&](int p) { add_into(count, b.data(), sum.data(), p); });
      expect_same(sum, map(a, b, std::plus<float>()), what);
    }
  });
}

TEST(Update, adam_equals_the_contract_without_decay_and_with_either) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t count : kCounts) {
      for (const auto& [decay, shrink] : {std::pair{0.0f, 0.0f}, {0.01f, 0.0f}, {0.0f, 0.003f}}) {
        Random random(static_cast<unsigned>(count));
        const AdamStep s{.beta1 = 0.9f,
                         .one_minus_beta1 = 1 - 0.9f,
                         .beta2 = 0.999f,
                         .one_minus_beta2 = 1 - 0.999f,
                         .rate = 0.1f,
                         .root_scale = 31.6f,
                         .epsilon = 1e-8f,
                         .weight_decay = decay,
                         .shrink = shrink};
        const Floats gradient = random.numbers(count);
        const Floats p = random.numbers(count), m = random.numbers(count),
                     v = random.positive_numbers(count);
        Floats want_p = p, want_m = m, want_v = v;
        for (std::size_t i = 0; i < p.size(); ++i) {
          const float g = decay == 0 ? gradient[i] : std::fma(decay, p[i], gradient[i]);
          want_m[i] = std::fma(s.beta1, m[i], s.one_minus_beta1 * g);
          want_v[i] = std::fma(s.beta2, v[i], (s.one_minus_beta2 * g) * g);
          const float root = std::fma(std::sqrt(want_v[i]), s.root_scale, s.epsilon);
          const float kept = shrink == 0 ? p[i] : std::fma(-shrink, p[i], p[i]);
          want_p[i] = std::fma(-s.rate, want_m[i] / root, kept);
        }
        for (const Way way : kWays) {
          Parameters new_p(p, way.whole_lines);
          Floats new_m = m, new_v = v;
          run_parts(flat_parts(count), [&](int part) {
            adam(count, s, gradient.data(), new_p.data(), new_m.data(), new_v.data(), way.shared,
                 part);
          });
          expect_same(new_p.take(), want_p, target);
          expect_same(new_m, want_m, target);
          expect_same(new_v, want_v, target);
        }
      }
    }
  });
}

TEST(Update, sgd_equals_the_contract_in_every_form) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t count : kCounts) {
      for (const bool nesterov : {false, true}) {
        for (const float decay : {0.0f, 5e-4f}) {
          Random random(static_cast<unsigned>(count));
          const SgdStep s{
              .rate = 0.4f, .momentum = 0.9f, .weight_decay = decay, .nesterov = nesterov};
          const Floats gradient = random.numbers(count);
          const Floats p = random.numbers(count), v = random.numbers(count);
          Floats want_p = p, want_v = v;
          for (std::size_t i = 0; i < p.size(); ++i) {
            const float g = decay == 0 ? gradient[i] : std::fma(decay, p[i], gradient[i]);
            want_v[i] = std::fma(0.9f, v[i], g);
            want_p[i] = std::fma(-0.4f, nesterov ? std::fma(0.9f, want_v[i], g) : want_v[i], p[i]);
          }
          for (const Way way : kWays) {
            Parameters new_p(p, way.whole_lines);
            Floats new_v = v;
            run_parts(flat_parts(count), [&](int part) {
              sgd(count, s, gradient.data(), new_p.data(), new_v.data(), way.shared, part);
            });
            expect_same(new_p.take(), want_p, target);
            expect_same(new_v, want_v, target);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace podium::cpu
