#include "data/source/source.h"

namespace podium {

Source::~Source() = default;

}  // namespace podium
