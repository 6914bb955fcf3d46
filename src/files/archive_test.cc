#include "files/archive.h"

#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

using Files = std::vector<std::pair<std::string, Bytes>>;

Bytes all_of(ByteSource& source) {
  Bytes bytes(source.most_bytes());
  bytes.resize(source.read(bytes));
  return bytes;
}

Files members_of(const Bytes& archive) {
  Files files;
  parse_archive(archive, "x.tar.gz", "mend it", [&](const std::string& name, ByteSource& bytes) {
    files.emplace_back(name, all_of(bytes));
    return true;
  });
  return files;
}

TEST(Archive, gives_its_files_in_order_and_no_folders) {
  const Files files = {{"b/two", {1, 2, 3}}, {"a", {}}, {"b/one", Bytes(100000, 7)}};
  Files with_folder = files;
  with_folder.insert(with_folder.begin(), {"b/", {}});
  EXPECT_EQ(members_of(tar_gz(with_folder)), files);
}

TEST(Archive, is_read_from_a_file_as_from_memory) {
  const TempFolder folder;
  const std::string path = write_file(folder / "x.tar.gz", tar_gz({{"a", {5}}}));
  int calls = 0;
  read_archive(path, "mend it", [&](const std::string& name, ByteSource& bytes) {
    ++calls;
    EXPECT_EQ(name, "a");
    EXPECT_EQ(all_of(bytes), Bytes{5});
    return true;
  });
  EXPECT_EQ(calls, 1);
}

TEST(Archive, ends_where_the_visitor_has_enough_and_may_leave_members_unread) {
  std::vector<std::string> seen;
  parse_archive(tar_gz({{"a", {1}}, {"b", {2}}, {"c", {3}}}), "x", "mend it",
                [&](const std::string& name, ByteSource&) {
                  seen.push_back(name);
                  return name != "b";
                });
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b"}));
}

TEST(Archive, that_is_missing_cut_or_none_is_refused_with_name_and_remedy) {
  const auto nothing = [](const std::string&, ByteSource&) { return true; };
  EXPECT_CONTAINS(data_error([&] { read_archive("no/such.tar", "mend it", nothing); }),
                  "no/such.tar: cannot be opened");
  Bytes noise(5000);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::uint8_t>(i * i);
  const std::string text = data_error([&] { members_of(noise); });
  EXPECT_CONTAINS(text, "x.tar.gz: the archive cannot be read: ");
  EXPECT_CONTAINS(text, "; mend it");
  Bytes contents(200000);
  for (std::size_t i = 0; i < contents.size(); ++i)
    contents[i] = static_cast<std::uint8_t>(i * i >> 5);
  Bytes cut = tar_gz({{"a", contents}});
  cut.resize(cut.size() / 2);
  EXPECT_CONTAINS(data_error([&] { members_of(cut); }), "the archive cannot be read: ");
}

TEST(Archive, that_is_a_pipe_or_may_not_be_read_is_refused) {
  const auto nothing = [](const std::string&, ByteSource&) { return true; };
  const TempFolder folder;
  const std::string pipe = folder / "pipe.tar";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(data_error([&] { read_archive(pipe, "mend it", nothing); }),
            pipe + ": is a folder, pipe or device, not a file; mend it");
  const std::string path = write_file(folder / "x.tar.gz", tar_gz({{"a", {5}}}));
  ::chmod(path.c_str(), 0);
  const auto text = data_error_as_nobody(folder, [&] { read_archive(path, "mend it", nothing); });
  if (!text) GTEST_SKIP() << "cannot give up the right to read everything";
  EXPECT_EQ(*text,
            path + ": cannot be opened: Permission denied; change its permissions, or mend it");
}

TEST(Archive, is_not_read_further_than_is_asked_for) {
  const TempFolder folder;
  const std::string path = folder / "x.tar.gz";
  if (!write_sparse_file(path, tar_gz({{"a", {5}}, {"b", {6}}}), std::uintmax_t{1} << 40))
    GTEST_SKIP() << "no file of a TiB can be made here";
  read_archive(path, "mend it", [&](const std::string& name, ByteSource& bytes) {
    EXPECT_EQ(name, "a");
    EXPECT_EQ(all_of(bytes), Bytes{5});
    return false;
  });
}

}  // namespace
}  // namespace podium
