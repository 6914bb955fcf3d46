// A program that links count_allocations.cc counts what its threads allocate with `new`.
#pragma once

#include <cstdint>

namespace podium {

std::int64_t allocations();  // so far

}  // namespace podium
