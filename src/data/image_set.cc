#include "data/image_set.h"

#include <algorithm>

#include "base/error.h"

namespace podium {
namespace {

constexpr std::int64_t kMostExtent = 65536, kMostExamples = 10'000'000;
constexpr std::int64_t kMostClasses = 256;

std::string images(std::int64_t n) { return cat(n, n == 1 ? " image" : " images"); }

// What does not fit in memory of so many bytes and labels; no label has been looked at.
void require_sizes(const ImageSetShape& shape, std::size_t bytes, std::size_t labels,
                   const std::string& what) {
  PODIUM_REQUIRE(shape.count >= 1 && shape.count <= kMostExamples, ExitCode::kData, what, ": ",
                 shape.count, " examples; there must be 1 to ", kMostExamples);
  for (const std::int64_t extent : {shape.channels, shape.height, shape.width})
    PODIUM_REQUIRE(extent >= 1 && extent <= kMostExtent, ExitCode::kData, what, ": images of ",
                   shape.channels, " channels, ", shape.height, " x ", shape.width,
                   " pixels; each must be 1 to ", kMostExtent);
  PODIUM_REQUIRE(shape.classes >= 1 && shape.classes <= kMostClasses, ExitCode::kData, what, ": ",
                 shape.classes, " classes; there must be 1 to ", kMostClasses);
  const std::int64_t image = shape.channels * shape.height * shape.width;
  PODIUM_REQUIRE(shape.count <= (std::int64_t{1} << 60) / image, ExitCode::kData, what, ": ",
                 images(shape.count), " of ", image, " bytes are more than any memory");
  const auto have = static_cast<std::int64_t>(bytes), wanted = shape.count * image;
  PODIUM_REQUIRE(have >= wanted, ExitCode::kData, what, ": ", images(shape.count), " of ",
                 shape.channels, " x ", shape.height, " x ", shape.width, " need ", wanted,
                 " bytes, and there are ", have, ": example ", have / image,
                 " (counted from 0) is the first that is not whole");
  PODIUM_REQUIRE(have == wanted, ExitCode::kData, what, ": ", images(shape.count), " of ",
                 shape.channels, " x ", shape.height, " x ", shape.width, " need ", wanted,
                 " bytes, and there are ", have, ": the shape or the number of images is wrong");
  const auto labelled = static_cast<std::int64_t>(labels);
  PODIUM_REQUIRE(labelled != 0, ExitCode::kData, what, ": no labels; each of the ",
                 images(shape.count), " needs one, from 0 to ", shape.classes - 1);
  PODIUM_REQUIRE(labelled == shape.count, ExitCode::kData, what, ": ", labelled, " labels for ",
                 images(shape.count),
                 labelled < shape.count
                     ? cat(": example ", labelled, " (counted from 0) is the first without one")
                     : "; there must be one for each");
}

template <typename Label>
void require_labels(std::span<const Label> labels, std::int64_t classes, const std::string& what) {
  const auto bad = std::ranges::find_if(labels, [&](Label label) {
    return static_cast<std::int64_t>(label) < 0 || static_cast<std::int64_t>(label) >= classes;
  });
  if (bad == labels.end()) return;
  throw UserError(cat(what, ": example ", bad - labels.begin(), " (counted from 0) has the label ",
                      static_cast<std::int64_t>(*bad), "; labels are 0 to ", classes - 1,
                      ", since there are ", classes, " classes"),
                  ExitCode::kData);
}

}  // namespace

ImageSet make_image_set(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels,
                        const ImageSetShape& shape) {
  const std::string& what = shape.source;
  PODIUM_REQUIRE(pixels.data() != nullptr, ExitCode::kData, what,
                 ": the pixels are a null pointer");
  PODIUM_REQUIRE(labels.data() != nullptr || labels.empty(), ExitCode::kData, what,
                 ": the labels are a null pointer");
  require_sizes(shape, pixels.size(), labels.size(), what);
  require_labels(labels, shape.classes, what);
  ImageSet set{shape.count, shape.channels, shape.height,
               shape.width, shape.classes,  {pixels.begin(), pixels.end()},
               {},          shape.source};
  set.labels.reserve(labels.size());
  for (const std::int32_t label : labels) set.labels.push_back(static_cast<std::uint8_t>(label));
  return set;
}

void require_usable(const ImageSet& set, const std::string& what) {
  const std::string text = set.source.empty() ? what : cat(what, " (", set.source, ")");
  require_sizes({.count = set.count,
                 .channels = set.channels,
                 .height = set.height,
                 .width = set.width,
                 .classes = set.classes,
                 .source = ""},
                set.pixels.size(), set.labels.size(), text);
  require_labels(std::span<const std::uint8_t>(set.labels), set.classes, text);
}

}  // namespace podium
