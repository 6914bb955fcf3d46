// What stores answer to requests for a part of an object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "store/http.h"

namespace podium {

// For Http::send(): asks again for answers of success that are not `size` bytes long.
std::function<bool(const HttpAnswer&)> until_whole(std::int64_t size);

// The bytes of an answer. Throws UserError(kData), which begins with `place`, if the object is no
// longer the one that was asked for (status 412), or if they are not `size`. What is no success
// otherwise is the caller's to tell: `refuse` does, and throws.
std::string part_of(HttpAnswer answer, const std::string& place, std::int64_t size,
                    const std::function<void(const HttpAnswer&)>& refuse);

}  // namespace podium
