#include "store/stored_folder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "store/local_copy.h"
#include "store/store_test_util.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// A store whose object is replaced once between being found and being read.
class Replaced : public ObjectStore {
 public:
  Replaced(std::unique_ptr<ObjectStore> store, std::string key)
      : store_(std::move(store)), key_(std::move(key)) {}
  std::vector<ObjectInfo> list(const std::string& prefix) override { return store_->list(prefix); }
  std::optional<ObjectInfo> find(const std::string& key) override {
    const auto found = store_->find(key);
    if (key == key_ && found && !std::exchange(is_replaced_, true)) {
      EXPECT_TRUE(store_->write(key, store_->read(*found, 0, found->size) + "\n", {}));
    }
    return found;
  }
  std::string read(const ObjectInfo& object, std::int64_t offset, std::int64_t size) override {
    return store_->read(object, offset, size);
  }
  std::optional<std::string> write(const std::string& key, std::string_view bytes,
                                   const WriteIf& condition) override {
    return store_->write(key, bytes, condition);
  }
  void remove(const std::string& key) override { store_->remove(key); }
  bool is_replaced() const { return is_replaced_; }

 private:
  void write_parts(const std::string& key, const std::string& path) override {
    store_->write_file(key, path);
  }
  const std::unique_ptr<ObjectStore> store_;
  const std::string key_;
  bool is_replaced_ = false;
};

class Stored : public Store, public ::testing::WithParamInterface<const char*> {
 protected:
  const std::string address_ = cat(GetParam(), "://data/runs/a");
  // Another machine has another cache.
  std::unique_ptr<ScopedEnvironment> machine(const std::string& name) {
    return std::make_unique<ScopedEnvironment>("XDG_CACHE_HOME", folder_ / name);
  }
  std::string read(const std::string& name) {
    const auto other = machine("reader");
    return file_text(fs::path(local_path(address_)) / name);
  }
};

TEST_P(Stored, is_read_again_where_somebody_publishes_in_between) {
  {
    StoredFolder stored(address_, kQuick);
    put_text(stored.folder() / "recipe.toml", "a recipe");
    stored.finish();
  }
  Replaced store(open(), "runs/a/folder.json");
  const auto other = machine("reader");
  const auto copy = copy_of_stored_folder(store, parse_address(address_));
  EXPECT_TRUE(store.is_replaced());
  ASSERT_TRUE(copy);
  EXPECT_EQ(file_text(*copy / "recipe.toml"), "a recipe");
}

TEST_P(Stored, is_published_as_a_whole_and_read_elsewhere) {
  {
    StoredFolder stored(address_, kQuick);
    put_text(stored.folder() / "recipe.toml", "a recipe");
    fs::create_directories(stored.folder() / "checkpoints");
    put_text(stored.folder() / "checkpoints/1", "first");
    put_text(stored.folder() / ".lock", "process 1");
    put_text(stored.folder() / "x.writing-12", "half");
    stored.publish_soon();
    put_text(stored.folder() / "checkpoints/2", std::string(20 << 20, 'x'));
    fs::remove(stored.folder() / "checkpoints/1");
    stored.finish();
  }
  EXPECT_EQ(read("recipe.toml"), "a recipe");
  EXPECT_EQ(read("checkpoints/2").size(), 20U << 20);
  EXPECT_EQ(read("checkpoints/1"), "");
  // What is not part of it any more is gone.
  EXPECT_EQ(open()->list("runs/a/").size(), 3U);
}

TEST_P(Stored, goes_on_where_another_machine_stopped) {
  {
    const auto first = machine("first");
    StoredFolder stored(address_, kQuick);
    put_text(stored.folder() / "hashes", "1\n2\n");
    stored.finish();
  }
  {
    const auto second = machine("second");
    StoredFolder stored(address_, kQuick);
    EXPECT_EQ(file_text(stored.folder() / "hashes"), "1\n2\n");
    put_text(stored.folder() / "hashes", "1\n2\n3\n");
    stored.finish();
  }
  EXPECT_EQ(read("hashes"), "1\n2\n3\n");
  // The first machine's folder is another state now: it is set aside.
  const auto first = machine("first");
  StoredFolder stored(address_, kQuick);
  EXPECT_EQ(file_text(stored.folder() / "hashes"), "1\n2\n3\n");
  EXPECT_EQ(file_text(fs::path(stored.folder().string() + "-previous-1") / "hashes"), "1\n2\n");
}

TEST_P(Stored, keeps_what_this_machine_made_since_it_published) {
  {
    StoredFolder stored(address_, kQuick);
    put_text(stored.folder() / "hashes", "1\n");
    stored.finish();
    put_text(stored.folder() / "hashes", "1\n2\n");  // and is killed
  }
  StoredFolder stored(address_, kQuick);
  EXPECT_EQ(file_text(stored.folder() / "hashes"), "1\n2\n");
}

TEST_P(Stored, has_one_writer_who_is_the_last_to_open_it) {
  const auto first = machine("first");
  StoredFolder old_writer(address_, kQuick);
  put_text(old_writer.folder() / "hashes", "of the old one");
  {
    const auto second = machine("second");
    StoredFolder new_writer(address_, kQuick);
    put_text(new_writer.folder() / "hashes", "of the new one");
    new_writer.finish();
  }
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { old_writer.finish(); }),
                  "another process has taken this folder over");
  EXPECT_EQ(read("hashes"), "of the new one");
  EXPECT_EQ(file_text(old_writer.folder() / "hashes"), "of the old one");
}

TEST_P(Stored, tells_its_writer_soon_that_it_was_taken_over) {
  const auto first = machine("first");
  StoredFolder old_writer(address_, kQuick);
  {
    const auto second = machine("second");
    StoredFolder(address_, kQuick).finish();
  }
  put_text(old_writer.folder() / "hashes", "1\n");
  const std::string text = user_error(ExitCode::kData, [&] {
    for (int i = 0; i < 500; ++i) {
      old_writer.publish_soon();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_CONTAINS(text, "so this one ends");
}

// A writer that is killed, or whose publication fails, leaves objects that nothing names.
TEST_P(Stored, is_freed_of_what_was_sent_in_vain) {
  const auto first = machine("first");
  StoredFolder old_writer(address_, kQuick);
  const auto second = machine("second");
  {
    StoredFolder new_writer(address_, kQuick);
    put_text(old_writer.folder() / "checkpoint", "of the old one");
    user_error(ExitCode::kData, [&] { old_writer.finish(); });
    put_text(new_writer.folder() / "hashes", "1\n2\n");
    new_writer.finish();
  }
  EXPECT_EQ(open()->list("runs/a/").size(), 3U);  // the old one's checkpoint among them
  put("runs/a/files/hashes.0123456789abcdef", "of a writer before there were marks");
  { StoredFolder(address_, kQuick).finish(); }
  EXPECT_EQ(open()->list("runs/a/").size(), 2U);
  EXPECT_EQ(read("hashes"), "1\n2\n");
}

// Whatever fails on the way, readers find the state before or the state after.
TEST_P(Stored, is_one_state_whatever_fails) {
  {
    StoredFolder stored(address_, kQuick);
    put_text(stored.folder() / "a", "old");
    put_text(stored.folder() / "b", "old");
    stored.finish();
  }
  for (const char* kind : {"lost", "cut", "500", "QuotaExceeded", "BadDigest"}) {
    for (const int before : {0, 1, 4}) {
      SCOPED_TRACE(cat(kind, " after ", before));
      const std::string bytes = cat(kind, before);
      bool published = true;
      {
        StoredFolder stored(address_, kQuick);
        put_text(stored.folder() / "a", bytes);
        put_text(stored.folder() / "b", bytes);
        if (before > 0) fault("slow", before);
        fault(kind);
        try {
          stored.finish();
        } catch (const UserError& error) {
          published = false;
          EXPECT_CONTAINS(std::string(error.what()), "all of it is in ");
        }
      }
      fault("none");
      EXPECT_EQ(read("a"), read("b"));
      if (published) {
        EXPECT_EQ(read("a"), bytes);
      }
      StoredFolder again(address_, kQuick);
      EXPECT_EQ(file_text(again.folder() / "a"), bytes);
      again.finish();
    }
  }
}

TEST_P(Stored, does_not_write_between_other_objects) {
  put("runs/a/photo.jpg", "x");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { StoredFolder(address_, kQuick); }),
                  cat(address_, ": there are other objects, such as ", address_, "/photo.jpg"));
}

INSTANTIATE_TEST_SUITE_P(Of, Stored, ::testing::Values("s3", "gs"),
                         [](const auto& with) { return std::string(with.param); });

TEST(FolderState, is_read_as_it_was_written) {
  const FolderState state{"host", {{"a/b", {12, std::string(64, 'a'), "89abcdef"}}}};
  const FolderState read = parse_folder_state(to_json(state), "f");
  EXPECT_EQ(read.writer, "host");
  EXPECT_EQ(read.files, state.files);
}

TEST(FolderState, without_marks_is_read_too) {
  std::string text = to_json({"host", {{"a/b", {12, std::string(64, 'a'), ""}}}});
  text.replace(text.find("folder 2"), 8, "folder 1");
  text.replace(text.find(",\n   \"mark\": \"\""), 16, "");
  EXPECT_EQ(parse_folder_state(text, "f").files.at("a/b"),
            (StoredFile{12, std::string(64, 'a'), ""}));
}

TEST(FolderState, of_somebody_else_is_refused) {
  const std::string good = to_json({"host", {{"a/b", {12, std::string(64, 'a'), "89abcdef"}}}});
  const auto with = [&](const std::string& old_text, const std::string& new_text) {
    std::string text = good;
    text.replace(text.find(old_text), old_text.size(), new_text);
    return user_error(ExitCode::kData, [&] { parse_folder_state(text, "f"); });
  };
  EXPECT_CONTAINS(with("podium folder 2", "podium folder 9"), "f: it does not begin as");
  EXPECT_CONTAINS(with("a/b", "../b"), "\"../b\" is no name of a file");
  EXPECT_CONTAINS(with("a/b", "/b"), "\"/b\" is no name of a file");
  EXPECT_CONTAINS(with("12", "-1"), "lacks a size or a SHA-256");
  EXPECT_CONTAINS(with("aaaa", "ZZZZ"), "lacks a size or a SHA-256");
  EXPECT_CONTAINS(with("89abcdef", "../../89"), "\"a/b\" has a mark that is none");
  EXPECT_CONTAINS(with("\"writer\"", "\"author\""), "\"files\" or \"writer\" is missing");
}

}  // namespace
}  // namespace podium
