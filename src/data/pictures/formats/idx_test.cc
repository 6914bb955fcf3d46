#include "data/pictures/formats/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

const Bytes kElements = {1, 2, 3, 4, 5, 6};

std::string idx_error(const Bytes& file, const IdxRules& rules = {}) {
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
    const std::string text = idx_error({bytes.begin(), bytes.begin() + static_cast<long>(n)});
    EXPECT_CONTAINS(text, "digits.idx: at byte " + std::to_string(n) + ": the file ");
    EXPECT_CONTAINS(text, "replace the file");
  }
}

TEST(Idx, every_cut_of_a_gzip_file_is_an_error) {
  const Bytes packed = gzip(idx({2, 3}, kElements));
  for (std::size_t n = 2; n < packed.size(); ++n) {
    const std::string text = idx_error({packed.begin(), packed.begin() + static_cast<long>(n)});
    EXPECT_CONTAINS(text, "the gzip data ends at byte " + std::to_string(n));
  }
}

TEST(Idx, a_flipped_bit_in_gzip_is_an_error) {
  const Bytes packed = gzip(idx({2, 3}, kElements));
  constexpr std::size_t kHeader = 10;  // its time and flags may hold anything
  for (std::size_t i = kHeader; i < packed.size(); ++i) {
    Bytes bad = packed;
    bad[i] ^= 0x10;
    EXPECT_CONTAINS(idx_error(bad), "digits.idx: ");
  }
}

TEST(Idx, a_gzip_file_whose_contents_are_short_names_the_unpacked_byte) {
  Bytes bytes = idx({2, 3}, kElements);
  bytes.pop_back();
  EXPECT_CONTAINS(idx_error(gzip(bytes)), "at byte 17 (unpacked): the file ends here: 5 of the 6");
}

TEST(Idx, empty_files_are_named_as_such) {
  EXPECT_CONTAINS(idx_error({}), "at byte 0: the file is empty");
  EXPECT_CONTAINS(idx_error(gzip({})), "at byte 0 (unpacked): the file is empty");
}

TEST(Idx, data_after_the_elements_is_an_error) {
  Bytes bytes = idx({2, 3}, kElements);
  bytes.push_back(0);
  EXPECT_CONTAINS(idx_error(bytes), "at byte 18: data continues after the 6 elements");
  EXPECT_CONTAINS(idx_error(gzip(bytes)), "at byte 18 (unpacked): data continues");
  Bytes trailing = gzip(idx({2, 3}, kElements));
  trailing.push_back(7);
  EXPECT_CONTAINS(idx_error(trailing), "1 more bytes follow");
}

TEST(Idx, a_wrong_magic_number_is_shown_beside_the_right_one) {
  EXPECT_CONTAINS(idx_error({'P', 'K', 3, 4, 0, 0}, {3, "fetch it"}),
                  "at byte 0: the magic number is 0x504B0304, not 0x00000803: this is not an IDX "
                  "file; fetch it");
  EXPECT_CONTAINS(
      idx_error(idx({6}, kElements), {3, "fetch it"}),
      "at byte 3: the magic number is 0x00000801 (1 dimension: labels?), not 0x00000803");
  Bytes floats = idx({6}, kElements);
  floats[2] = 0x0D;
  EXPECT_CONTAINS(idx_error(floats), "at byte 2: the elements are floats");
}

TEST(Idx, a_header_that_promises_too_much_takes_no_memory) {
  const Bytes header = idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {});
  EXPECT_CONTAINS(idx_error(header), "at byte 20: the file ends here: 0 of the 4294967295 x ");
  EXPECT_CONTAINS(idx_error(gzip(header)), "more than a file of this size can contain");
}

TEST(Idx, an_extent_of_zero_is_read_as_no_elements) {
  EXPECT_TRUE(parse_idx(idx({0, 28, 28}, {}), "file").bytes.empty());
}

TEST(Idx, more_elements_than_the_rules_allow_are_refused_before_they_are_read) {
  const IdxRules rules = {2, "fetch it", {2, 3}};
  EXPECT_EQ(parse_idx(idx({2, 3}, kElements), "file", rules).bytes, kElements);
  EXPECT_EQ(parse_idx(idx({1, 3}, {1, 2, 3}), "file", rules).bytes, (Bytes{1, 2, 3}));
  EXPECT_EQ(
      idx_error(idx({3, 2}, kElements), rules),
      "digits.idx: at byte 4: the header states 3 x 2 elements; at most 2 x 3 are allowed here; "
      "fetch it");
  EXPECT_CONTAINS(idx_error(gzip(idx({1, 6}, kElements)), rules),
                  "at byte 8 (unpacked): the header states 1 x 6 elements");
}

// The reader holds 256 KiB of the packed bytes at a time: members end before, at and after that.
TEST(Idx, gzip_members_may_end_anywhere) {
  constexpr std::size_t kChunk = std::size_t{1} << 18;
  Bytes noise(kChunk + 100);
  std::uint32_t state = 1;
  for (std::uint8_t& byte : noise) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  const auto first_part = [&](std::size_t n) {  // of a file that gzip cannot shrink
    const Bytes bytes = idx({static_cast<std::uint32_t>(n + kElements.size())},
                            {noise.begin(), noise.begin() + static_cast<long>(n)});
    return gzip(bytes);
  };
  const std::size_t around = kChunk - (first_part(kChunk).size() - kChunk);
  std::set<std::size_t> ends;
  for (std::size_t n = around - 3; n <= around + 3; ++n) {
    Bytes file = first_part(n);
    ends.insert(file.size());
    EXPECT_CONTAINS(idx_error(file), "the file ends here: " + std::to_string(n));
    const Bytes cut(file.begin(), file.end() - 1);
    EXPECT_CONTAINS(idx_error(cut),
                    "the gzip data ends at byte " + std::to_string(cut.size()) + ", in the middle");
    Bytes trailing = file;
    trailing.push_back(0x1F);
    EXPECT_CONTAINS(idx_error(trailing),
                    "ends at byte " + std::to_string(file.size()) + ", but 1 more bytes follow");
    const Bytes rest = gzip(kElements);
    file.insert(file.end(), rest.begin(), rest.end());
    const Bytes read = parse_idx(file, "file").bytes;
    ASSERT_EQ(read.size(), n + kElements.size());
    EXPECT_TRUE(std::equal(noise.begin(), noise.begin() + static_cast<long>(n), read.begin()));
    EXPECT_TRUE(std::equal(kElements.rbegin(), kElements.rend(), read.rbegin()));
  }
  EXPECT_TRUE(ends.contains(kChunk - 1) && ends.contains(kChunk) && ends.contains(kChunk + 1));
}

TEST(Idx, a_packed_file_takes_no_memory_by_its_size_alone) {
  const TempFolder folder;
  const std::string path = folder / "images.gz";
  if (!write_sparse_file(path, gzip(idx({6}, kElements)), std::uintmax_t{1} << 40))
    GTEST_SKIP() << "no file of a TiB can be made here";
  EXPECT_CONTAINS(data_error([&] { read_idx(path); }), "more bytes follow");
}

TEST(Idx, missing_files_folders_and_pipes_are_told_apart) {
  const TempFolder folder;
  EXPECT_CONTAINS(data_error([&] { read_idx(folder / "absent"); }),
                  "absent: cannot be opened: No such file or directory");
  EXPECT_CONTAINS(data_error([&] { read_idx(folder.path()); }), "is a folder, pipe or device");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(data_error([&] {
              read_idx(pipe, {0, "mend it"});
            }),
            pipe + ": is a folder, pipe or device, not a file; mend it");
}

TEST(Idx, unreadable_files_say_why_and_what_to_do) {
  const TempFolder folder;
  const std::string path = write_file(folder / "secret", idx({6}, kElements));
  ::chmod(path.c_str(), 0);
  const auto text = data_error_as_nobody(folder, [&] { read_idx(path, {0, "mend it"}); });
  if (!text) GTEST_SKIP() << "cannot give up the right to read everything";
  EXPECT_EQ(*text,
            path + ": cannot be opened: Permission denied; change its permissions, or mend it");
}

}  // namespace
}  // namespace podium
