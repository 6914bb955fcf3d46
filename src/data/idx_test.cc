#include "data/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/test_files.h"

namespace podium {
namespace {

using namespace podium::testing;

const Bytes kElements = {1, 2, 3, 4, 5, 6};

std::string error_of(const Bytes& file, const IdxRules& rules = {}) {
  return data_error([&] { parse_idx(file, "digits.idx", rules); });
}

TEST(Idx, reads_plain_files_and_gzip_alike) {
  const TempFolder folder;
  const Bytes bytes = idx({1, 2, 3}, kElements);
  for (const Bytes& file : {bytes, gzip(bytes)}) {
    const IdxData data = read_idx(write_file(folder / "file", file));
    EXPECT_EQ(data.extents, (std::vector<std::int64_t>{1, 2, 3}));
    EXPECT_EQ(data.bytes, kElements);
    EXPECT_EQ(parse_idx(file, "file").bytes, kElements);
  }
}

TEST(Idx, reads_gzip_of_several_members) {
  const Bytes bytes = idx({6}, kElements);
  Bytes file = gzip({bytes.begin(), bytes.begin() + 5});
  const Bytes rest = gzip({bytes.begin() + 5, bytes.end()});
  file.insert(file.end(), rest.begin(), rest.end());
  EXPECT_EQ(parse_idx(file, "file").bytes, kElements);
}

TEST(Idx, every_cut_of_a_plain_file_is_an_error_that_names_its_end) {
  const Bytes bytes = idx({2, 3}, kElements);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::string text = error_of({bytes.begin(), bytes.begin() + static_cast<long>(n)});
    EXPECT_CONTAINS(text, "digits.idx: at byte " + std::to_string(n) + ": the file ");
    EXPECT_CONTAINS(text, "replace the file");
  }
}

TEST(Idx, every_cut_of_a_gzip_file_is_an_error) {
  const Bytes packed = gzip(idx({2, 3}, kElements));
  for (std::size_t n = 2; n < packed.size(); ++n) {
    const std::string text = error_of({packed.begin(), packed.begin() + static_cast<long>(n)});
    EXPECT_CONTAINS(text, "the gzip data ends at byte " + std::to_string(n));
  }
}

TEST(Idx, a_flipped_bit_in_gzip_is_an_error) {
  const Bytes packed = gzip(idx({2, 3}, kElements));
  constexpr std::size_t kHeader = 10;  // its time and flags may hold anything
  for (std::size_t i = kHeader; i < packed.size(); ++i) {
    Bytes bad = packed;
    bad[i] ^= 0x10;
    EXPECT_CONTAINS(error_of(bad), "digits.idx: ");
  }
}

TEST(Idx, a_gzip_file_whose_contents_are_short_names_the_unpacked_byte) {
  Bytes bytes = idx({2, 3}, kElements);
  bytes.pop_back();
  EXPECT_CONTAINS(error_of(gzip(bytes)), "at byte 17 (unpacked): the file ends here: 5 of the 6");
}

TEST(Idx, empty_files_are_named_as_such) {
  EXPECT_CONTAINS(error_of({}), "at byte 0: the file is empty");
  EXPECT_CONTAINS(error_of(gzip({})), "at byte 0 (unpacked): the file is empty");
}

TEST(Idx, data_after_the_elements_is_an_error) {
  Bytes bytes = idx({2, 3}, kElements);
  bytes.push_back(0);
  EXPECT_CONTAINS(error_of(bytes), "at byte 18: data goes on after the 6 elements");
  EXPECT_CONTAINS(error_of(gzip(bytes)), "at byte 18 (unpacked): data goes on");
  Bytes trailing = gzip(idx({2, 3}, kElements));
  trailing.push_back(7);
  EXPECT_CONTAINS(error_of(trailing), "1 more bytes follow");
}

TEST(Idx, a_wrong_magic_number_is_shown_beside_the_right_one) {
  EXPECT_CONTAINS(
      error_of({'P', 'K', 3, 4, 0, 0}, {3, "fetch it"}),
      "at byte 0: the magic number is 0x504B0304, not 0x00000803: no IDX file; fetch it");
  EXPECT_CONTAINS(
      error_of(idx({6}, kElements), {3, "fetch it"}),
      "at byte 3: the magic number is 0x00000801 (1 dimension: labels?), not 0x00000803");
  Bytes floats = idx({6}, kElements);
  floats[2] = 0x0D;
  EXPECT_CONTAINS(error_of(floats), "at byte 2: the elements are floats");
}

TEST(Idx, a_header_that_promises_too_much_takes_no_memory) {
  const Bytes header = idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {});
  EXPECT_CONTAINS(error_of(header), "at byte 20: the file ends here: 0 of the 4294967295 x ");
  EXPECT_CONTAINS(error_of(gzip(header)), "more than a file of this size can hold");
}

TEST(Idx, an_extent_of_zero_is_read_as_no_elements) {
  EXPECT_TRUE(parse_idx(idx({0, 28, 28}, {}), "file").bytes.empty());
}

TEST(Idx, missing_files_and_folders_are_told_apart) {
  const TempFolder folder;
  EXPECT_CONTAINS(data_error([&] { read_idx(folder / "absent"); }),
                  "absent: cannot be opened: No such file or directory");
  EXPECT_CONTAINS(data_error([&] { read_idx(folder.path()); }), "is a folder or device");
}

TEST(Idx, unreadable_files_say_why) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TempFolder folder;
  const std::string path = write_file(folder / "secret", idx({6}, kElements));
  ::chmod(path.c_str(), 0);
  EXPECT_CONTAINS(data_error([&] { read_idx(path); }), "Permission denied");
}

}  // namespace
}  // namespace podium
