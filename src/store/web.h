// One file on the web, for reading.
#pragma once

#include <memory>

#include "store/object_store.h"

namespace podium {

std::unique_ptr<ObjectStore> open_web(const ObjectAddress& address, const HttpPatience& patience,
                                      StopToken stop);

}  // namespace podium
