#include "data/archive.h"

#include "data/test_files.h"

namespace podium {
namespace {

using namespace podium::testing;

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

}  // namespace
}  // namespace podium
