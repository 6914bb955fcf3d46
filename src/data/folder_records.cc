#include "data/folder_records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"

namespace podium {
namespace {

std::uint64_t hash_of_text(std::string_view text) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

std::string FolderRecords::name(std::int64_t i) const {
  return cat(index_->root, "/", index_->name(static_cast<std::int64_t>(file(i))));
}

void FolderRecords::read(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  const std::string path = name(i);
  const auto fail = [&](const std::string& what) {
    throw UserError(cat(path, ": ", what,
                        "; a run needs its pictures as they were when it began: restore it, or "
                        "index the folder again with `podium data index` and start over"),
                    ExitCode::kData);
  };
  const Descriptor opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened.number < 0) fail(std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(opened.number, &status) != 0) fail(std::generic_category().message(errno));
  const std::int64_t time =
      std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (status.st_size != index_->sizes[file(i)] || time != index_->times[file(i)])
    fail("it has changed since the folder was indexed");
  bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(opened.number, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::generic_category().message(errno));
    if (got == 0) fail("it became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
}

std::uint64_t FolderRecords::hash(StopToken stop) const {
  std::uint64_t hash = 0;
  for (const std::string& name : index_->class_names) hash = hash_append(hash, hash_of_text(name));
  for (std::int64_t i = 0; i < count(); ++i) {
    if (i % 4096 == 0) stop.check();
    const std::size_t at = file(i);
    hash = hash_append(hash, hash_of_text(index_->name(static_cast<std::int64_t>(at))));
    hash = hash_append(hash, static_cast<std::uint64_t>(index_->labels[at]));
    hash = hash_append(hash, static_cast<std::uint64_t>(index_->sizes[at]));
    hash = hash_append(hash, static_cast<std::uint64_t>(index_->times[at]));
  }
  return hash;
}

std::int64_t FolderRecords::memory_bytes() const {
  // The index is of both parts: this one's share of it.
  const double share = static_cast<double>(count()) / static_cast<double>(index_->count());
  return static_cast<std::int64_t>(share * static_cast<double>(index_->memory_bytes())) +
         count() * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

FolderParts parts_of(const std::shared_ptr<const FolderIndex>& index, double share) {
  std::vector<std::uint32_t> train, test;
  if (!index->train_part.empty()) {
    const std::string start = index->train_part + "/";
    for (std::int64_t i = 0; i < index->count(); ++i)
      (index->name(i).starts_with(start) ? train : test).push_back(static_cast<std::uint32_t>(i));
    for (const bool is_train : {true, false})
      PODIUM_REQUIRE(!(is_train ? train : test).empty(), ExitCode::kData, index->root, "/",
                     is_train ? index->train_part : index->test_part, ": has no pictures");
  } else {
    std::vector<std::vector<std::uint32_t>> by_class(index->class_names.size());
    for (std::int64_t i = 0; i < index->count(); ++i)
      by_class[static_cast<std::size_t>(index->labels[static_cast<std::size_t>(i)])].push_back(
          static_cast<std::uint32_t>(i));
    for (std::vector<std::uint32_t>& files : by_class) {
      const auto size = static_cast<double>(files.size());
      auto held_out = static_cast<std::size_t>(std::nearbyint(share * size));
      if (held_out == 0 && files.size() >= 2) held_out = 1;
      if (held_out == files.size() && held_out > 0) --held_out;
      std::ranges::sort(files, {}, [&](std::uint32_t file) {
        return std::pair(hash_of_text(index->name(file)), file);
      });
      test.insert(test.end(), files.begin(), files.begin() + static_cast<std::ptrdiff_t>(held_out));
      train.insert(train.end(), files.begin() + static_cast<std::ptrdiff_t>(held_out), files.end());
    }
    std::ranges::sort(train);
    std::ranges::sort(test);
    PODIUM_REQUIRE(!test.empty(), ExitCode::kData, index->root, ": has ", index->count(),
                   index->count() == 1 ? " picture" : " pictures",
                   ", and no class has two, so none can be held out; add pictures");
  }
  const auto origin = [&](const std::string& part, const char* divided) {
    return part.empty() ? cat(index->root, ", ", divided) : cat(index->root, "/", part);
  };
  return {std::make_shared<const FolderRecords>(index, std::move(train),
                                                origin(index->train_part, "to train")),
          std::make_shared<const FolderRecords>(index, std::move(test),
                                                origin(index->test_part, "held out"))};
}

}  // namespace podium
