// Filters that whiten: the start of a convolution that makes its outputs uncorrelated, from the
// patches of the training set (K. Jordan, airbench, 2024).
#pragma once

#include <cstddef>
#include <vector>

#include "data/source/source.h"
#include "nn/network.h"

namespace podium {

// The weight [2 V, C, k, k] of such a convolution, V = C k^2: the eigenvectors of the covariance of
// all k x k patches of the first 5,000 training images (normalised, not augmented; no mean is
// taken off), each divided by sqrt(eigenvalue + epsilon), by rising eigenvalue, the largest
// component of each positive; then the same with the other sign. Computed in double in one order,
// by operations that every machine rounds alike. Throws Stopped as `stop` says.
Tensor whitening_filters(const Parameter& parameter, const Source& set, StopToken stop = {});

// Eigenvalues, rising, and eigenvectors, a row each, of a symmetric matrix [n, n] given row by row
// (cyclic Jacobi rotations; Golub, Van Loan, Matrix computations, 8.5).
struct Eigen {
  std::vector<double> values, vectors;
};
Eigen symmetric_eigen(std::vector<double> matrix, std::size_t n);

}  // namespace podium
