#include "store/answer.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "store/object_store.h"

namespace podium {

std::function<bool(const HttpAnswer&)> until_whole(std::int64_t size) {
  return [size](const HttpAnswer& answer) {
    return answer.status / 100 == 2 && std::ssize(answer.body) != size;
  };
}

std::string part_of(HttpAnswer answer, const std::string& place, std::int64_t size,
                    const std::function<void(const HttpAnswer&)>& refuse) {
  if (answer.status == 412) throw ObjectChanged(place);
  if (answer.status / 100 != 2) refuse(answer);
  PODIUM_REQUIRE(std::ssize(answer.body) == size, ExitCode::kData, place, ": ", answer.body.size(),
                 " bytes arrive where ", size,
                 " were asked for, again and again; is there a proxy that changes answers?");
  return std::move(answer.body);
}

}  // namespace podium
