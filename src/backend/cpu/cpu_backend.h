// The CPU backend: own kernels on Highway (kernels/), the batch of a replica in the vector lanes. A
// graph becomes a flat list of kernel calls with offsets into one arena; a worker runs it on one
// thread, or shares the parts of each kernel out among several, with the same bits.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace podium {

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace podium
