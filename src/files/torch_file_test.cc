#include "files/torch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_test_util.h"
#include "files/pickle.h"

namespace podium {
namespace {

// Written by PyTorch.
std::string given(const std::string& name) { return cat("src/files/testdata/", name, ".pth"); }

std::vector<float> floats(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const Tensor* const found = find_tensor(tensors, name);
  if (found == nullptr) return {};
  return {found->f32().begin(), found->f32().end()};
}

std::string refusal(const std::string& name) {
  return user_error(ExitCode::kData, [&] { read_torch_file(given(name)); });
}
std::string refused_pickle(std::string_view pickle) {
  return user_error(ExitCode::kData, [&] { tensors_of_pickle(pickle, "x.pth"); });
}

TEST(TorchFile, has_the_tensors_of_a_state_dict_whatever_their_kind_and_strides) {
  ASSERT_TRUE(is_torch_file(given("state")));
  const std::vector<NamedTensor> tensors = read_torch_file(given("state"));
  ASSERT_EQ(tensors.size(), 7U);
  EXPECT_EQ(tensors[0].name, "plain");
  EXPECT_EQ(tensors[0].tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(floats(tensors, "plain"), (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f}));
  EXPECT_EQ(floats(tensors, "turned"), (std::vector<float>{0, 0.75f, 0.25f, 1, 0.5f, 1.25f}));
  EXPECT_EQ(floats(tensors, "part"), (std::vector<float>{4, 5}));
  EXPECT_EQ(floats(tensors, "half"),
            (std::vector<float>{1.5f, -0x1p-24f, 65504, INFINITY, 0x1.998p-4f}));
  EXPECT_EQ(floats(tensors, "brain")[0], 1.5f);
  EXPECT_EQ(floats(tensors, "parameter"), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(find_tensor(tensors, "counter")->i32()[0], 7);
  EXPECT_EQ(find_tensor(tensors, "counter")->shape(), Shape{});
  // A state dict among other things.
  EXPECT_EQ(floats(read_torch_file(given("nested")), "plain"), floats(tensors, "plain"));
}

TEST(TorchFile, runs_no_code_and_names_what_it_is_asked_to_call) {
  EXPECT_CONTAINS(refusal("module"), "testdata/module.pth: byte");
  EXPECT_CONTAINS(refusal("module"), "torch.save(model.state_dict(), FILE)");
  constexpr std::string_view kCall("cos\nsystem\n(X\2\0\0\0lstR.", 22);
  EXPECT_CONTAINS(refused_pickle(kCall), "it would call os system, which makes no tensor");
  EXPECT_CONTAINS(refused_pickle("i"), "byte 1 of its pickle: the instruction 105 is none");
  EXPECT_CONTAINS(refused_pickle("}."), "the dictionary has no tensors");
  EXPECT_CONTAINS(refused_pickle("K"), "cut short");
  EXPECT_CONTAINS(refused_pickle(""), "cut short");
  EXPECT_CONTAINS(refused_pickle("N."), "no dictionary of tensors");
}

TEST(TorchFile, says_what_of_a_tensor_does_not_fit) {
  EXPECT_CONTAINS(refusal("double"), "tensor \"wide\": its numbers are a DoubleStorage");
  EXPECT_CONTAINS(refusal("expanded"), "tensor \"again\": it has numbers beyond its storage, or");
  std::ifstream file(given("state"), std::ios::binary);
  const std::vector<char> whole((std::istreambuf_iterator<char>(file)), {});
  const auto refused = [&](std::vector<char> bytes) {
    return user_error(ExitCode::kData, [&] {
      parse_torch_file({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                       "x.pth");
    });
  };
  std::vector<char> cut(whole.begin(), whole.begin() + 700);
  EXPECT_CONTAINS(refused(cut), "x.pth");
  EXPECT_CONTAINS(refused({}), "x.pth");
  // Each bit of a storage counts: archives have checksums.
  std::vector<char> changed = whole;
  const std::string quarter("\0\0\x80\x3e", 4);
  const auto at = std::search(changed.begin(), changed.end(), quarter.begin(), quarter.end());
  ASSERT_NE(at, changed.end());
  *at = 1;
  EXPECT_CONTAINS(refused(changed), "x.pth: in ");
}

}  // namespace
}  // namespace podium
