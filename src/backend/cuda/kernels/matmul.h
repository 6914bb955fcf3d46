// Matrix products y = a b (docs/numerics.md, matmul): runs of 256 terms, each a chain, added in
// order.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE {

// The distances between an operand's rows and between its columns, in floats: of a row-major matrix
// {columns, 1}, of one that is transposed or batch last {1, rows}.
struct MatrixLayout {
  std::int64_t row, column;
};

inline MatrixLayout turned(const MatrixLayout& m) { return {m.column, m.row}; }

// a [rows, depth], b [depth, columns], y [rows, columns]; each below 2^31.
struct MatmulShape {
  std::int64_t rows, depth, columns;
  MatrixLayout a, b, y;
  // y holds the sum of the terms before these, to which they are added; FP32's are at most a run of
  // 256 then, those of BF16 may be as many as there are.
  bool adds = false;
};

// y^T = b^T a^T in the same memory: a and b change places.
inline MatmulShape transposed(const MatmulShape& s) {
  return {.rows = s.columns,
          .depth = s.depth,
          .columns = s.rows,
          .a = turned(s.b),
          .b = turned(s.a),
          .y = turned(s.y),
          .adds = s.adds};
}

// The floats of `scratch`, for each replica.
std::int64_t matmul_scratch(const MatmulShape& shape);
void matmul(const Launch& launch, const MatmulShape& shape, ConstFloats a, ConstFloats b, Floats y,
            Floats scratch);

}  // namespace podium::PODIUM_CUDA_SPACE
