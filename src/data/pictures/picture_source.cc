#include "data/pictures/picture_source.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/words.h"
#include "data/storage/index_file.h"
#include "data/storage/indexed_file.h"

namespace podium {

void plan_example(const PictureReader& reader, const CropOptions& options, const ExampleKey* key,
                  ExamplePlan& plan) {
  const std::int64_t size = options.size;
  plan.eighths = 8;
  if (key != nullptr && options.random) {
    const PictureArea crop = random_crop(options, *key, reader.height(), reader.width());
    plan.eighths = reader.eighths_for(crop.height, crop.width, size, size);
    const double scale = plan.eighths / 8.0;
    const auto axis = [&](std::int64_t start, std::int64_t extent, ResizeAxis& to) {
      make_resize_axis(static_cast<double>(start) * scale, static_cast<double>(extent) * scale,
                       size, 0, size, to);
    };
    axis(crop.top, crop.height, plan.rows);
    axis(crop.left, crop.width, plan.columns);
  } else {
    const CentreCrop crop = centre_crop(options, reader.height(), reader.width());
    make_resize_axis(0, static_cast<double>(reader.height()), crop.height, crop.top, size,
                     plan.rows);
    make_resize_axis(0, static_cast<double>(reader.width()), crop.width, crop.left, size,
                     plan.columns);
  }
  plan.area = {plan.rows.begin, plan.columns.begin, plan.rows.end - plan.rows.begin,
               plan.columns.end - plan.columns.begin};
}

void make_example(std::span<const std::uint8_t> file, const std::string& name,
                  const CropOptions& options, const ExampleKey* key, std::uint8_t* out) {
  thread_local PicturePixels pixels;
  thread_local ExamplePlan plan;
  PictureReader reader(file, name);
  plan_example(reader, options, key, plan);
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

ImageSource::Example PictureSource::read_image(std::int64_t index, const ExampleKey* key,
                                               std::uint8_t* out) const {
  PODIUM_CHECK(index >= 0 && index < count, index);
  thread_local std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (index + i) % count;
    try {
      records_->read(at, bytes);
      make_example(bytes, records_->name(at), crop_, key, out);
      return {out, records_->label(at)};
    } catch (const BadPicture& problem) {
      if (key == nullptr || !bad_.skip) {
        const char* const remedy =
            key == nullptr && bad_.skip ? "; evaluation skips no picture: repair or remove it"
            : key == nullptr            ? "; repair or remove it and give the same command again"
                                        : "; repair or remove it, or train with data.on_error=skip";
        throw BadPicture(cat(problem.what(), remedy, " (`podium data verify` lists all such)"));
      }
      pass_over(at, problem.what());
    }
  }
  throw UserError(cat(source, ": none of its ", count, " pictures can be decoded"),
                  ExitCode::kData);
}

void require_decodable(const PictureSource& pictures, StopToken stop) {
  constexpr std::size_t kMostNamed = 10;
  const CropOptions& crop = pictures.crop();
  const std::string key =
      cat("decodable ", pictures.identity(stop), " ", crop.size, " ", crop.resize);
  const std::string file = index_file_of(key);
  if (!file.empty() && read_cache_file(file) == key) return;
  const Records& records = pictures.records();
  if (records.count() >= 1000)
    log(LogLevel::kInfo, cat("checking that the ", records.count(),
                             " pictures of the evaluation set can be decoded (once)"));
  std::mutex mutex;
  std::map<std::int64_t, std::string> bad;  // in the order of the set
  for_each_file(records.count(), [&](std::int64_t i) {
    stop.check();
    thread_local std::vector<std::uint8_t> bytes, out;
    out.resize(static_cast<std::size_t>(pictures.image_bytes()));
    try {
      records.read(i, bytes);
      make_example(bytes, records.name(i), crop, nullptr, out.data());
    } catch (const BadPicture& problem) {
      const std::lock_guard lock(mutex);
      bad.emplace(i, problem.what());
    }
  });
  if (bad.empty()) {
    if (!file.empty()) static_cast<void>(keep_cache_file(file, key));
    return;
  }
  std::string text;
  std::size_t named = 0;
  for (const auto& [index, problem] : bad)
    if (named++ < kMostNamed) text += cat("\n  ", problem);
  if (bad.size() > kMostNamed) text += cat("\n  and ", bad.size() - kMostNamed, " more");
  throw UserError(cat(pictures.source, ": ",
                      count_text(std::ssize(bad), "picture of the evaluation set",
                                 "pictures of the evaluation set"),
                      " cannot be decoded, and evaluation skips none:", text, "\nRepair or remove ",
                      bad.size() == 1 ? "it" : "them",
                      " and give the same command again; `podium data verify` lists all such"),
                  ExitCode::kData);
}

void PictureSource::require_usable(const std::string& what) const {
  PODIUM_REQUIRE(count >= 1, ExitCode::kData, what, " (", source, ") has no pictures");
  PODIUM_REQUIRE(classes >= 2, ExitCode::kData, what, " (", source, ") has ",
                 count_text(classes, "class", "classes"), "; a classifier needs at least two");
}

std::string PictureSource::identity(StopToken stop) const {
  return cat(count, " examples, hash ", hash_text(records_->hash(stop)), ", decoded by ",
             picture_decoders());
}

}  // namespace podium
