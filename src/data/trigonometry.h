// Sine and cosine by IEEE additions and multiplications alone, so that drawn and augmented pictures
// are the same bits on every machine (libm's are not). Error below 1e-9.
#pragma once

namespace podium {

struct SineCosine {
  double sine, cosine;
};

// Of an angle in degrees, between -36,000 and 36,000.
constexpr SineCosine sine_cosine(double degrees) {
  const double quarters = degrees / 90.0;
  const int quarter = static_cast<int>(quarters + (quarters < 0 ? -0.5 : 0.5));
  const double x = (degrees - 90.0 * quarter) * 0.017453292519943295;  // within +- pi/4
  const double x2 = x * x;
  // Taylor series to x^11 and x^10.
  const double s =
      x * (1.0 + x2 * (-1.0 / 6 +
                       x2 * (1.0 / 120 +
                             x2 * (-1.0 / 5040 + x2 * (1.0 / 362880 + x2 * (-1.0 / 39916800))))));
  const double c =
      1.0 + x2 * (-1.0 / 2 +
                  x2 * (1.0 / 24 + x2 * (-1.0 / 720 + x2 * (1.0 / 40320 + x2 * (-1.0 / 3628800)))));
  switch (((quarter % 4) + 4) % 4) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

}  // namespace podium
