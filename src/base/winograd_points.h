// The constants of the contract conv2d_winograd (docs/numerics.md): its finite points are 0, +-a
// and +-b. Each is rounded once from its exact value; all but those of G are exact.
#pragma once

namespace podium::winograd {

inline constexpr double kExactA = 0.625, kExactB = 1.5;
inline constexpr double kExactA2 = kExactA * kExactA, kExactB2 = kExactB * kExactB;
inline constexpr float kA = kExactA, kB = kExactB, kA2 = kExactA2, kB2 = kExactB2;
inline constexpr float kA3 = kExactA2 * kExactA, kB3 = kExactB2 * kExactB;
inline constexpr float kP = kExactA2 * kExactB2, kS = kExactA2 + kExactB2;
inline constexpr double kExactNa = 1 / (2 * kExactA2 * (kExactA2 - kExactB2));
inline constexpr double kExactNb = 1 / (2 * kExactB2 * (kExactB2 - kExactA2));
inline constexpr float kG0 = 1 / (kExactA2 * kExactB2);
inline constexpr float kGa0 = kExactNa, kGa1 = kExactA * kExactNa, kGa2 = kExactA2 * kExactNa;
inline constexpr float kGb0 = kExactNb, kGb1 = kExactB * kExactNb, kGb2 = kExactB2 * kExactNb;

}  // namespace podium::winograd
