// The matrix product of plain row-major matrices (contract `matmul`).
#pragma once

#include <cstdint>

namespace podium::cpu {

// c [rows][columns] = a b; a is [rows][depth], or [depth][rows] with transpose_a; b is
// [depth][columns], or [columns][depth] with transpose_b.
struct MatmulShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transpose_a = false;
  bool transpose_b = false;
};

int matmul_parts(const MatmulShape& shape);
void matmul(const MatmulShape& shape, const float* a, const float* b, float* c, int part);

}  // namespace podium::cpu
