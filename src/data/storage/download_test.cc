#include "data/storage/download.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/clock.h"
#include "data/datasets/fetch.h"
#include "files/checksum.h"
#include "files/test_files.h"
#include "files/test_server.h"

namespace podium {
namespace {

using namespace podium::test_files;
namespace fs = std::filesystem;

class Download : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 5000; ++i) content_.push_back(static_cast<std::uint8_t>(i * i >> 3));
    write_file(folder_ / "web/file", content_);
    server_ = std::make_unique<Server>("src/data/storage/download_test_server.py", folder_ / "web");
    if (server_->port() == 0) GTEST_SKIP() << "python3 is not on this machine";
  }

  DownloadRequest request(const std::vector<std::string>& kinds) const {
    DownloadRequest request;
    for (const std::string& kind : kinds) {
      request.addresses.push_back(server_->address(kind + "/file"));
    }
    request.target = target_;
    request.pause_seconds = 0.001;
    request.attempts = 8;
    request.check = [this](const std::string& path) {
      PODIUM_REQUIRE(read_file(path) == content_, ExitCode::kData, path, ": other bytes");
    };
    return request;
  }
  std::vector<std::string> requests() const {
    DownloadRequest request;
    request.addresses = {server_->address("requests")};
    request.target = folder_ / "requests";
    download(request);
    const Bytes bytes = read_file(request.target);
    std::istringstream text(std::string(bytes.begin(), bytes.end()));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  void expect_whole() const {
    EXPECT_EQ(read_file(target_), content_);
    EXPECT_FALSE(fs::exists(target_ + ".part"));
  }

  TempFolder folder_;
  Bytes content_;
  std::string target_ = folder_ / "cache/deep/file";
  std::unique_ptr<Server> server_;
};

TEST_F(Download, makes_the_folder_and_the_file) {
  std::int64_t bytes = 0;
  std::int64_t total = 0;
  DownloadRequest wanted = request({"ok"});
  wanted.progress = [&](std::int64_t now, std::int64_t all) {
    bytes = now;
    total = all;
  };
  download(wanted);
  expect_whole();
  EXPECT_EQ(bytes, 5000);
  EXPECT_EQ(total, 5000);
}

TEST_F(Download, one_that_stalls_is_given_up_and_goes_on_with_a_notice) {
  DownloadRequest wanted = request({"stalls"});
  wanted.silent_seconds = 0.2;
  std::vector<std::string> notices;
  wanted.notice = [&](const std::string& text) { notices.push_back(text); };
  const auto start = Clock::now();
  download(wanted);
  EXPECT_LT(seconds_since(start), 20);
  expect_whole();
  EXPECT_EQ(requests(), (std::vector<std::string>{"/stalls/file", "/stalls/file bytes=1000-"}));
  EXPECT_EQ(notices,
            (std::vector<std::string>{
                server_->address("stalls/file") +
                ": no byte was received for 0.2 s; attempt 2 of 8 resumes after 1000 bytes"}));
}

TEST_F(Download, a_trickle_counts_as_stalled) {
  DownloadRequest wanted = request({"trickle", "ok"});
  wanted.slow_seconds = 0.4;
  wanted.slow_bytes_per_second = 2000;
  wanted.attempts = 2;
  std::vector<std::string> notices;
  wanted.notice = [&](const std::string& text) { notices.push_back(text); };
  download(wanted);
  expect_whole();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_CONTAINS(notices[0],
                  "fewer than 2000 bytes per second were received for 0.4 s; attempt 2 of 2");
}

TEST_F(Download, what_is_slow_but_above_the_limit_is_no_trickle) {
  DownloadRequest wanted = request({"slow"});
  wanted.slow_seconds = 0.4;
  wanted.slow_bytes_per_second = 10;
  wanted.notice = [](const std::string& text) { ADD_FAILURE() << text; };
  download(wanted);
  expect_whole();
}

TEST_F(Download, a_server_that_never_answers_is_asked_twice_and_then_the_next) {
  DownloadRequest wanted = request({"mute", "ok"});
  wanted.silent_seconds = 0.2;
  download(wanted);
  expect_whole();
  EXPECT_EQ(requests(), (std::vector<std::string>{"/mute/file", "/mute/file", "/ok/file"}));
}

TEST(DownloadRequest, gives_up_after_30_s_without_a_byte_or_a_minute_below_1_KB_per_second) {
  const DownloadRequest request;
  EXPECT_EQ(request.silent_seconds, 30);
  EXPECT_EQ(request.slow_seconds, 60);
  EXPECT_EQ(request.slow_bytes_per_second, 1024);
}

TEST_F(Download, follows_redirects) {
  download(request({"moved"}));
  expect_whole();
}

TEST_F(Download, resumes_each_time_the_connection_is_cut) {
  download(request({"cut"}));
  expect_whole();
  const std::vector<std::string> expected = {"/cut/file", "/cut/file bytes=1000-",
                                             "/cut/file bytes=2000-", "/cut/file bytes=3000-",
                                             "/cut/file bytes=4000-"};
  EXPECT_EQ(requests(), expected);
}

TEST_F(Download, gives_up_after_its_attempts_and_the_next_call_resumes) {
  DownloadRequest wanted = request({"cut"});
  wanted.attempts = 2;
  const std::string text = data_error([&] { download(wanted); });
  EXPECT_CONTAINS(text, "2000 bytes are kept in " + target_ + ".part; the same command resumes");
  EXPECT_FALSE(fs::exists(target_));
  download(request({"ok"}));
  expect_whole();
  EXPECT_EQ(requests().back(), "/ok/file bytes=2000-");
}

TEST_F(Download, starts_again_where_the_server_knows_no_ranges) {
  write_file(target_ + ".part", {content_.begin(), content_.begin() + 1234});
  download(request({"norange"}));
  expect_whole();
}

TEST_F(Download, an_announced_length_that_never_comes_is_no_success) {
  // The server hangs up 100 bytes early by its own account; asked for them, it has no more, and the
  // check finds the file whole.
  download(request({"claims"}));
  expect_whole();
}

TEST_F(Download, a_file_too_short_is_dropped_and_the_next_address_tried) {
  download(request({"lacks", "ok"}));
  expect_whole();
}

TEST_F(Download, wrong_bytes_are_dropped_and_the_next_address_tried) {
  download(request({"wrong", "ok"}));
  expect_whole();
}

TEST_F(Download, wrong_bytes_everywhere_leave_nothing_behind) {
  const std::string text = data_error([&] { download(request({"wrong", "lacks"})); });
  EXPECT_CONTAINS(text, server_->address("wrong/file") + ": ");
  EXPECT_CONTAINS(text, server_->address("lacks/file") + ": ");
  EXPECT_CONTAINS(text, "other bytes");
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(fs::exists(target_ + ".part"));
}

TEST_F(Download, more_bytes_than_the_file_can_have_are_not_taken) {
  for (const std::string kind : {"long", "endless"}) {
    DownloadRequest wanted = request({kind});
    wanted.most_bytes = 6000;
    std::int64_t most = 0;
    wanted.progress = [&](std::int64_t now, std::int64_t) { most = std::max(most, now); };
    wanted.check = [](const std::string&) { FAIL() << "too long, and looked at"; };
    const std::string text = data_error([&] { download(wanted); });
    EXPECT_CONTAINS(text, server_->address(kind + "/file") +
                              ": sends more than the 6000 bytes that the file can have");
    EXPECT_LT(most, std::int64_t{1} << 20);
    EXPECT_FALSE(fs::exists(target_ + ".part"));
  }
  DownloadRequest wanted = request({"endless", "long", "ok"});
  wanted.most_bytes = 5000;
  download(wanted);
  expect_whole();
}

TEST_F(Download, a_part_that_makes_the_answer_too_long_is_dropped_and_fetched_anew) {
  write_file(target_ + ".part", Bytes(5500, 0xAB));
  DownloadRequest wanted = request({"long", "ok"});
  wanted.most_bytes = 6000;
  download(wanted);
  expect_whole();
  EXPECT_EQ(requests(),
            (std::vector<std::string>{"/long/file bytes=5500-", "/long/file", "/ok/file"}));
}

TEST_F(Download, what_ready_throws_ends_it_and_keeps_the_part) {
  DownloadRequest wanted = request({"ok"});
  wanted.ready = [] { throw UserError("in the way", ExitCode::kData); };
  EXPECT_EQ(data_error([&] { download(wanted); }), "in the way");
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_EQ(read_file(target_ + ".part"), content_);
}

TEST_F(Download, a_part_of_another_file_is_dropped_and_fetched_anew) {
  write_file(target_ + ".part", Bytes(2000, 0xAB));
  download(request({"ok"}));
  expect_whole();
}

TEST_F(Download, a_part_longer_than_the_file_is_dropped_and_fetched_anew) {
  write_file(target_ + ".part", Bytes(9000, 0xAB));
  download(request({"ok"}));
  expect_whole();
}

TEST_F(Download, a_part_that_is_whole_only_needs_its_name) {
  write_file(target_ + ".part", content_);
  download(request({"ok"}));
  expect_whole();
}

TEST_F(Download, absent_files_are_not_asked_for_twice) {
  DownloadRequest wanted = request({"ok"});
  wanted.addresses = {server_->address("ok/absent"), server_->address("ok/file")};
  download(wanted);
  expect_whole();
  EXPECT_EQ(requests(), (std::vector<std::string>{"/ok/absent", "/ok/file"}));
}

TEST_F(Download, absent_everywhere_says_404_and_what_to_do) {
  DownloadRequest wanted = request({});
  wanted.addresses = {server_->address("ok/absent")};
  const std::string text = data_error([&] { download(wanted); });
  EXPECT_CONTAINS(text, "404");
  EXPECT_CONTAINS(text, "Check the network and try again");
  EXPECT_FALSE(fs::exists(target_ + ".part"));
}

TEST_F(Download, a_busy_server_is_asked_again) {
  download(request({"busy"}));
  expect_whole();
}

TEST_F(Download, nobody_listening_is_an_error) {
  DownloadRequest wanted = request({});
  wanted.addresses = {"http://127.0.0.1:1/file"};
  wanted.attempts = 2;
  EXPECT_CONTAINS(data_error([&] { download(wanted); }), "http://127.0.0.1:1/file: ");
}

TEST_F(Download, other_protocols_are_refused) {
  DownloadRequest wanted = request({});
  wanted.addresses = {"file://" + folder_ / "web/file"};
  data_error([&] { download(wanted); });
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(Download, a_folder_that_cannot_be_written_is_named) {
  write_file(folder_ / "plain", {});
  DownloadRequest wanted = request({"ok"});
  wanted.target = folder_ / "plain/file";
  const std::string text = data_error([&] { download(wanted); });
  EXPECT_EQ(text.find(folder_ / "plain: cannot be made: "), 0u) << text;
  EXPECT_CONTAINS(text,
                  "; a file is in the place of a folder: move it, or download to another "
                  "folder with --data-dir");
}

TEST_F(Download, a_file_that_may_not_be_written_is_named_with_the_remedy) {
  fs::create_directories(folder_ / "cache/deep");
  const auto text = data_error_as_nobody(folder_, [&] { download(request({"ok"})); });
  if (!text) GTEST_SKIP() << "cannot give up the right to write everywhere";
  EXPECT_EQ(*text, target_ +
                       ".part: cannot be written: Permission denied; change its permissions, "
                       "or download to another folder with --data-dir");
}

TEST_F(Download, a_full_disk_is_named_and_not_retried) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "/dev/full is not on this machine";
  fs::create_directories(folder_ / "cache/deep");
  fs::create_symlink("/dev/full", target_ + ".part");
  const std::string text = data_error([&] { download(request({"ok"})); });
  EXPECT_CONTAINS(text, "No space left on device; make room");
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(Download, two_processes_do_not_write_one_file) {
  write_file(target_ + ".part", {1});
  const int other = ::open((target_ + ".part").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_CONTAINS(data_error([&] { download(request({"ok"})); }), "another process is downloading");
  ::close(other);
  download(request({"ok"}));
  expect_whole();
}

TEST_F(Download, what_progress_throws_ends_it) {
  DownloadRequest wanted = request({"ok"});
  wanted.progress = [](std::int64_t, std::int64_t) { throw UserError("stop", ExitCode::kStopped); };
  EXPECT_EQ(user_error(ExitCode::kStopped, [&] { download(wanted); }), "stop");
}

TEST(FetchAddresses, of_a_dataset_without_any_are_refused_with_the_remedy) {
  const ScopedEnvironment none("PODIUM_DOWNLOAD_BASE", "");
  const TempFolder folder;
  DatasetInfo info;
  info.name = "tiny";
  info.files.push_back({"images", 1, "00", Split::kTrain});
  EXPECT_CONTAINS(data_error([&] { fetch_dataset(info, folder.path().string(), {}); }),
                  "no download address of tiny is known; put images.gz into the folder");
}

// A dataset of two files, of which the web has NAME/FILE.gz for one and FILE.gz for the other.
class Fetch : public Download {
 protected:
  void SetUp() override {
    Download::SetUp();
    info_.name = "tiny";
    for (const char* name : {"images", "labels"}) {
      info_.files.push_back(
          {name, static_cast<std::int64_t>(content_.size()), sha256(content_), Split::kTrain});
    }
    write_file(folder_ / "web/tiny/images.gz", gzip(content_));
    write_file(folder_ / "web/labels.gz", gzip(content_));
  }
  void expect_intact() const {
    DatasetOptions options;
    options.data_dir = folder_ / "data";
    for (const FileCheck& check : verify_dataset(info_, options)) {
      EXPECT_TRUE(check.intact) << check.problem;
    }
  }

  DatasetInfo info_;
};

TEST_F(Fetch, brings_all_files_from_the_base_and_then_leaves_them) {
  const ScopedEnvironment base("PODIUM_DOWNLOAD_BASE", server_->address("ok/"));
  std::string last;
  const auto progress = [&](const std::string& file, std::int64_t, std::int64_t) { last = file; };
  for (const FetchedFile& file : fetch_dataset(info_, folder_ / "data", progress)) {
    EXPECT_TRUE(file.downloaded);
  }
  EXPECT_EQ(last, "labels.gz");
  EXPECT_TRUE(fs::exists(folder_ / "data/tiny/images.gz"));
  expect_intact();
  const std::size_t before = requests().size();
  for (const FetchedFile& file : fetch_dataset(info_, folder_ / "data", {})) {
    EXPECT_FALSE(file.downloaded);
  }
  EXPECT_EQ(requests().size(), before);
}

TEST_F(Fetch, replaces_damaged_files_and_sets_unpacked_ones_aside) {
  const ScopedEnvironment base("PODIUM_DOWNLOAD_BASE", server_->address("ok"));
  write_file(folder_ / "data/tiny/images.gz", gzip({1, 2, 3}));
  write_file(folder_ / "data/tiny/labels", {1, 2, 3});
  fetch_dataset(info_, folder_ / "data", {});
  expect_intact();
  EXPECT_EQ(read_file(folder_ / "data/tiny/labels.damaged"), (Bytes{1, 2, 3}));
  EXPECT_EQ(read_file(folder_ / "data/tiny/images.gz.damaged"), gzip({1, 2, 3}));
}

TEST_F(Fetch, sets_folders_and_pipes_that_stand_in_the_way_aside) {
  const ScopedEnvironment base("PODIUM_DOWNLOAD_BASE", server_->address("ok"));
  fs::create_directories(folder_ / "data/tiny/images/inside");
  fs::create_directories(folder_ / "data/tiny/images.gz");
  ASSERT_EQ(::mkfifo((folder_ / "data/tiny/labels").c_str(), 0600), 0);
  fetch_dataset(info_, folder_ / "data", {});
  expect_intact();
  EXPECT_TRUE(fs::exists(folder_ / "data/tiny/images.damaged/inside"));
}

TEST_F(Fetch, of_an_endless_answer_is_given_up) {
  const ScopedEnvironment base("PODIUM_DOWNLOAD_BASE", server_->address("endless"));
  EXPECT_CONTAINS(data_error([&] { fetch_dataset(info_, folder_ / "data", {}); }),
                  "images.gz: sends more than the 70614 bytes that the file can have");
  EXPECT_FALSE(fs::exists(folder_ / "data/tiny/images.gz.part"));
}

TEST_F(Fetch, of_wrong_bytes_fails_with_both_checksums) {
  const ScopedEnvironment base("PODIUM_DOWNLOAD_BASE", server_->address("ok"));
  Bytes other = content_;
  other[7] ^= 1;
  write_file(folder_ / "web/tiny/images.gz", gzip(other));
  const std::string text = data_error([&] { fetch_dataset(info_, folder_ / "data", {}); });
  EXPECT_CONTAINS(text, "SHA-256 is " + sha256(other) + " instead of " + sha256(content_));
  EXPECT_FALSE(fs::exists(folder_ / "data/tiny/images.gz"));
}

}  // namespace
}  // namespace podium
