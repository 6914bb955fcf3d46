#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/record_file.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

TEST(Crc32c, known_vectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising(32, '\0');
  for (int i = 0; i < 32; ++i) rising[static_cast<std::size_t>(i)] = static_cast<char>(i);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113FDB5Cu);
}

TEST(RecordFile, frames_as_tensorflow_does) {
  std::string file;
  append_record(file, "abc");
  ASSERT_EQ(file.size(), 8 + 4 + 3 + 4u);
  EXPECT_EQ(file.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  std::uint32_t crc = 0;
  std::memcpy(&crc, file.data() + 8, 4);
  EXPECT_EQ(crc, mask_crc(crc32c(std::string("\3\0\0\0\0\0\0\0", 8))));
  EXPECT_EQ(file.substr(12, 3), "abc");
  std::memcpy(&crc, file.data() + 15, 4);
  EXPECT_EQ(crc, mask_crc(crc32c("abc")));
}

TEST(TensorBoard, a_second_start_makes_a_later_file) {
  const TestFolder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i)
    names.push_back(TensorBoardWriter(folder.path()).path().filename().string());
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_TRUE(names[0].starts_with("events.out.tfevents."));
}

TEST(TensorBoard, a_folder_that_cannot_be_is_an_error) {
  const TestFolder folder;
  put_text(folder / "file", "");
  user_error(ExitCode::kData, [&] { TensorBoardWriter(folder / "file"); });
}

constexpr const char* kRead = R"(
import sys
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util.tensor_util import make_ndarray
events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
# What the server itself uses; it forgets by other rules.
served = plugin_event_accumulator.EventAccumulator(sys.argv[1], size_guidance={'tensors': 0})
served.Reload()
for tag in sorted(events.Tags()['scalars']):
    points = ['%d:%g' % (e.step, e.value) for e in events.Scalars(tag)]
    assert points == ['%d:%g' % (e.step, make_ndarray(e.tensor_proto)) for e in served.Tensors(tag)]
    print(tag, *points)
)";
constexpr const char* kModule = "tensorboard.backend.event_processing.event_accumulator";

TEST(TensorBoard, tensorboard_reads_what_is_written) {
  if (!python_has(kModule)) GTEST_SKIP() << "python3 has no tensorboard";
  const TestFolder folder;
  {
    TensorBoardWriter writer(folder.path());
    for (std::int64_t step : {10, 20}) {
      writer.scalars(step, {{"loss", 2.5 / static_cast<double>(step)},
                            {"accuracy", 0.5},
                            {"learning_rate", 0.02},
                            {"steps_per_second", 412},
                            {"images_per_second", 105472},
                            {"input_wait_percent", 0.25}});
    }
    writer.scalar("test_accuracy", 20, 0.9931, 1700000000.0);
  }
  std::string output;
  ASSERT_TRUE(run_python(kRead, folder.path(), &output));
  EXPECT_EQ(output,
            "accuracy 10:0.5 20:0.5\n"
            "images_per_second 10:105472 20:105472\n"
            "input_wait_percent 10:0.25 20:0.25\n"
            "learning_rate 10:0.02 20:0.02\n"
            "loss 10:0.25 20:0.125\n"
            "steps_per_second 10:412 20:412\n"
            "test_accuracy 20:0.9931\n");
}

TEST(TensorBoard, a_resumed_run_continues_with_nothing_doubled) {
  if (!python_has(kModule)) GTEST_SKIP() << "python3 has no tensorboard";
  const TestFolder folder;
  fs::path killed;
  {
    TensorBoardWriter writer(folder.path());
    for (std::int64_t step = 1; step <= 7; ++step) writer.scalar("loss", step, 1);
    killed = writer.path();
  }
  fs::resize_file(killed, fs::file_size(killed) - 5);  // a kill tears the last record
  {
    TensorBoardWriter writer(folder.path(), 4);  // from the checkpoint of step 4
    for (std::int64_t step = 5; step <= 9; ++step) writer.scalar("loss", step, 2);
  }
  {
    TensorBoardWriter writer(folder.path(), 9);
    writer.scalar("loss", 10, 3);
  }
  std::string output;
  ASSERT_TRUE(run_python(kRead, folder.path(), &output));
  EXPECT_EQ(output, "loss 1:1 2:1 3:1 4:1 5:2 6:2 7:2 8:2 9:2 10:3\n");
}

}  // namespace
}  // namespace podium
