#include "report/trackers/tensorboard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/storage/record_file.h"

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

// The server's own view of two runs: histograms, pictures and texts of one, and hyperparameters.
constexpr const char* kReadAll = R"(
import os, sys
from tensorboard.backend.event_processing import data_provider, event_accumulator
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.data import provider
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import backend_context, get_experiment, list_session_groups
from tensorboard.plugins.hparams import api_pb2
from tensorboard import context
events = event_accumulator.EventAccumulator(os.path.join(sys.argv[1], 'a'))
events.Reload()
h = events.Histograms('weights')[0]
v = h.histogram_value
print(h.step, v.min, v.max, v.num, v.sum, v.sum_squares, sum(v.bucket))
for limit, count in zip(v.bucket_limit, v.bucket):
    if count: print('%g' % limit, int(count))
image = events.Images('picture')[0]
print(image.step, image.height, image.width, image.encoded_image_string)
multiplexer = plugin_event_multiplexer.EventMultiplexer()
multiplexer.AddRunsFromDirectory(sys.argv[1])
multiplexer.Reload()
shown = data_provider.MultiplexerDataProvider(multiplexer, sys.argv[1])
ctx = context.RequestContext()
for kind, plugin in ((shown.list_tensors, 'histograms'), (shown.list_blob_sequences, 'images'),
                     (shown.list_tensors, 'text'), (shown.list_tensors, 'hparams')):
    found = kind(ctx, experiment_id='e', plugin_name=plugin)
    print(plugin, sorted((run, tag) for run in found for tag in found[run]))
text = shown.read_tensors(ctx, experiment_id='e', plugin_name='text', downsample=9)['a']['note']
print(text[0].numpy.item().decode())
hparams = backend_context.Context(base_plugin.TBContext(data_provider=shown))
whole = hparams.experiment_from_metadata(ctx, 'e', True, hparams.hparams_metadata(ctx, 'e'),
    provider.ListHyperparametersResult(hyperparameters=[], session_groups=[]))
print(sorted((i.name, api_pb2.DataType.Name(i.type)) for i in whole.hparam_infos))
print([i.name.tag for i in whole.metric_infos])
request = api_pb2.ListSessionGroupsRequest(slice_size=9, allowed_statuses=[0, 1, 2, 3])
for i in whole.hparam_infos: request.col_params.add(hparam=i.name, include_in_result=True)
for i in whole.metric_infos: request.col_params.add(metric=i.name)
groups = list_session_groups.Handler(ctx, hparams, 'e', request).run()
for group in sorted(groups.session_groups, key=lambda g: g.sessions[0].name):
    session = group.sessions[0]
    print(session.name, api_pb2.Status.Name(session.status), group.hparams['rate'].number_value,
          group.hparams['model'].string_value, group.hparams['flip'].bool_value,
          [(m.name.tag, '%g' % m.value) for m in session.metric_values])
)";

TEST(TensorBoard, tensorboard_shows_histograms_pictures_texts_and_hyperparameters_of_runs) {
  if (!python_has("tensorboard.plugins.hparams.list_session_groups"))
    GTEST_SKIP() << "python3 has no tensorboard";
  const TestFolder folder;
  for (const char* run : {"a", "b"}) {
    TensorBoardWriter writer(folder / run);
    const bool first = run[0] == 'a';
    writer.hyperparameters({{"rate", first ? 0.1 : 0.2}, {"model", "mnist"}, {"flip", first}});
    writer.scalar("test/accuracy", 8, first ? 0.5 : 0.75);
    if (!first) continue;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> values = {-2, -2, -1, 0, 0, 0, 0.5f, 4, nan};
    writer.histogram("weights", 8, values);
    writer.histogram("nothing", 8, std::vector<float>{nan});
    writer.picture("picture", 8, std::vector<std::uint8_t>{'P', 'N', 'G'}, 3, 5);
    writer.text("note", 8, "| a |");
    writer.finished();
  }
  std::string output;
  ASSERT_TRUE(run_python(kReadAll, folder.path(), &output)) << output;
  EXPECT_EQ(output,
            "8 -2.0 4.0 8.0 -0.5 25.25 8.0\n"
            "-1.9662 2\n-0.917246 1\n1e-12 3\n0.517762 1\n4.21472 1\n"
            "8 3 5 b'PNG'\n"
            "histograms [('a', 'weights')]\n"
            "images [('a', 'picture')]\n"
            "text [('a', 'note')]\n"
            "hparams [('a', '_hparams_/session_end_info'), ('a', '_hparams_/session_start_info'), "
            "('b', '_hparams_/session_start_info')]\n"
            "| a |\n"
            "[('flip', 'DATA_TYPE_BOOL'), ('model', 'DATA_TYPE_STRING'), "
            "('rate', 'DATA_TYPE_FLOAT64')]\n"
            "['test/accuracy']\n"
            "a STATUS_SUCCESS 0.1 mnist True [('test/accuracy', '0.5')]\n"
            "b STATUS_UNKNOWN 0.2 mnist False [('test/accuracy', '0.75')]\n");
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
