#include "train/run/published_file.h"

#include <filesystem>

#include "base/scratch_test_util.h"
#include "files/test_files.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
using test_files::ScopedEnvironment;

class PublishedFile : public ::testing::Test {
 protected:
  TestFolder folder_;
  ScopedEnvironment torch_{"TORCH_HOME", folder_ / "torch"};
  ScopedEnvironment hub_{"HF_HOME", folder_ / "hf"};
};

TEST_F(PublishedFile, is_the_one_that_torchvision_has_downloaded) {
  const fs::path files = folder_ / "torch/hub/checkpoints";
  fs::create_directories(files);
  put_text(files / "resnet50-0676ba61.pth", "x");
  put_text(files / "resnet50_half-0676ba61.pth", "x");
  put_text(files / "resnet50-notes.pth", "x");
  EXPECT_EQ(published_file("torchvision/resnet50"), files / "resnet50-0676ba61.pth");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [] { published_file("torchvision/resnet18"); }),
                  "torchvision downloads it");
  put_text(files / "resnet50-11ad3fa6.pth", "y");
  const std::string text =
      user_error(ExitCode::kData, [] { published_file("torchvision/resnet50"); });
  EXPECT_CONTAINS(text, "resnet50-0676ba61.pth");
  EXPECT_CONTAINS(text, "resnet50-11ad3fa6.pth");
}

TEST_F(PublishedFile, is_the_snapshot_of_the_main_branch_at_hugging_face) {
  const fs::path model = folder_ / "hf/hub/models--an-org--small";
  fs::create_directories(model / "snapshots/abc");
  fs::create_directories(model / "refs");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [] { published_file("huggingface/an-org/small"); }),
                  "huggingface-cli download an-org/small");
  put_text(model / "refs/main", "abc\n");
  EXPECT_EQ(published_file("huggingface/an-org/small"), model / "snapshots/abc");
}

TEST_F(PublishedFile, is_the_path_itself_where_it_is_one) {
  EXPECT_EQ(published_file("runs/a"), "runs/a");
  EXPECT_EQ(published_file((folder_ / "").string()), (folder_ / "").string());
}

}  // namespace
}  // namespace podium
