#include "data/pictures/picture_source.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/numerics/hash.h"
#include "base/words.h"

namespace podium {

void plan_example(const PictureSize& picture, const CropOptions& options, const ExampleKey* key,
                  ExamplePlan& plan) {
  const std::int64_t size = options.size;
  // Of the picture at the size at which it is decoded.
  const auto axis = [&](std::int64_t start, std::int64_t extent, std::int64_t whole,
                        std::int64_t first, ResizeAxis& to) {
    const double scale = plan.eighths / 8.0;
    make_resize_axis(static_cast<double>(start) * scale, static_cast<double>(extent) * scale, whole,
                     first, size, to);
  };
  if (key != nullptr && options.random) {
    const PictureArea crop = random_crop(options, *key, picture.height, picture.width);
    plan.eighths = picture.eighths_for(crop.height, crop.width, size, size);
    axis(crop.top, crop.height, size, 0, plan.rows);
    axis(crop.left, crop.width, size, 0, plan.columns);
  } else {
    const CentreCrop crop = centre_crop(options, picture.height, picture.width);
    plan.eighths = picture.most_eighths();
    axis(0, picture.height, crop.height, crop.top, plan.rows);
    axis(0, picture.width, crop.width, crop.left, plan.columns);
  }
  plan.area = {plan.rows.begin, plan.columns.begin, plan.rows.end - plan.rows.begin,
               plan.columns.end - plan.columns.begin};
}

void make_example(std::span<const std::uint8_t> file, const std::string& name,
                  const CropOptions& options, const ExampleKey* key, std::uint8_t* out) {
  thread_local PicturePixels pixels;
  thread_local ExamplePlan plan;
  PictureReader reader(file, name);
  plan_example(reader.size(), options, key, plan);
  reader.decode(plan.eighths, plan.area, pixels);
  resize(pixels, plan.rows, plan.columns, out);
}

PictureSource::PictureSource(std::shared_ptr<const Records> records, const CropOptions& crop,
                             BadPictures bad)
    : records_(std::move(records)), crop_(crop), bad_(bad) {
  count = records_->count();
  channels = 3;
  height = width = crop.size;
  class_names = records_->class_names();
  classes = records_->classes();
  source = records_->origin();
}

void PictureSource::pass_over(std::int64_t index, const std::string& problem) const {
  const std::lock_guard lock(mutex_);
  if (!skipped_.insert(index).second) return;
  PODIUM_REQUIRE(
      std::ssize(skipped_) <= bad_.limit, ExitCode::kData, problem, "\nThat makes ",
      count_text(std::ssize(skipped_), "bad picture"), " of ", source,
      ", and `data.skip_limit` is ", bad_.limit,
      "; `podium data verify` lists them all; repair or remove them, or raise the limit");
  log(LogLevel::kWarning, cat(problem, "; the next picture takes its place (", skipped_.size(),
                              " of at most ", bad_.limit, ")"));
}

std::int64_t PictureSource::skipped() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(skipped_);
}

// An area of a decoded picture has the bytes of the picture when it is decoded alone.
void PictureSource::read_record(std::int64_t index, const ExampleKey* key,
                                std::uint8_t* out) const {
  thread_local std::vector<std::uint8_t> bytes;
  thread_local PicturePixels pixels;
  thread_local ExamplePlan plan;
  const std::optional<PictureSize> known = decoded_.size_of(index);
  if (known) {
    plan_example(*known, crop_, key, plan);
    if (decoded_.read(index, plan.eighths, plan.area, pixels))
      return resize(pixels, plan.rows, plan.columns, out);
  }
  records_->read(index, bytes);
  if (!decoded_.has_room() || !keep(index, key, bytes))
    return make_example(bytes, records_->name(index), crop_, key, out);
  return read_record(index, key, out);
}

bool PictureSource::keep(std::int64_t index, const ExampleKey* key,
                         std::span<const std::uint8_t> file) const {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 24;
  try {
    PictureReader reader(file, records_->name(index));
    ExamplePlan plan;
    plan_example(reader.size(), crop_, key, plan);
    if (reader.size().height * reader.size().width > kMostPixels) return false;
    PicturePixels pixels;
    reader.decode_all(plan.eighths, pixels);
    return decoded_.keep(index, reader.size(), plan.eighths, pixels);
  } catch (const BadPicture&) {
    return false;  // It may be damaged only where this example does not look.
  }
}

bool PictureSource::keep_decoded(std::int64_t bytes) const {
  decoded_.allow(bytes);
  return true;
}

ImageSource::Example PictureSource::read_image(std::int64_t index, const ExampleKey* key,
                                               std::uint8_t* out) const {
  PODIUM_CHECK(index >= 0 && index < count, index);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (index + i) % count;
    try {
      read_record(at, key, out);
      return {out, records_->label(at)};
    } catch (const BadPicture& problem) {
      if (key == nullptr || !bad_.skip) {
        const char* const remedy =
            key == nullptr
                ? "; evaluation skips no picture: repair it and give the same command again"
                : "; repair or remove it, or train with data.on_error=skip";
        throw BadPicture(cat(problem.what(), remedy, " (`podium data verify` lists all such)"));
      }
      pass_over(at, problem.what());
    }
  }
  throw UserError(cat(source, ": none of its ", count, " pictures can be decoded"),
                  ExitCode::kData);
}

void PictureSource::require_usable(const std::string& what) const {
  PODIUM_REQUIRE(count >= 1, ExitCode::kData, what, " (", source, ") has no pictures");
  PODIUM_REQUIRE(classes >= 2, ExitCode::kData, what, " (", source, ") has ",
                 count_text(classes, "class", "classes"), "; a classifier needs at least two");
}

std::string PictureSource::identity(StopToken stop) const {
  const Records::Hash hash = records_->hash(stop);
  return cat(count, " examples, names ", hash_text(hash.names), ", contents ",
             hash_text(hash.contents), ", decoded by ", picture_decoders());
}

}  // namespace podium
