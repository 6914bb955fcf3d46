// A comparison as one self-contained HTML page.
#pragma once

#include <string>

#include "report/comparison.h"

namespace podium {

std::string comparison_page(const Comparison& comparison);

}  // namespace podium
