#include "files/safetensors_index.h"

#include <gtest/gtest.h>

#include <string>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

class SafetensorsIndex : public testing::Test {
 protected:
  SafetensorsIndex() {
    Tensor one(TensorType{DType::kF32, Shape{2}}), other(TensorType{DType::kF32, Shape{3}});
    one.f32()[1] = 5, other.f32()[2] = 7;
    write_safetensors(folder_ / "a.safetensors", std::vector<NamedTensor>{{"x", one}});
    write_safetensors(folder_ / "b.safetensors",
                      std::vector<NamedTensor>{{"y", other}, {"z", one}});
  }
  std::vector<NamedTensor> read(const std::string& map) {
    put_text(folder_ / kName, "{\"metadata\": {}, \"weight_map\": {" + map + "}}");
    return read_safetensors_index(folder_ / kName);
  }
  std::string refusal(const std::string& map) {
    return user_error(ExitCode::kData, [&] { read(map); });
  }
  static constexpr const char* kName = "model.safetensors.index.json";
  TestFolder folder_;
};

TEST_F(SafetensorsIndex, joins_the_tensors_of_its_files) {
  EXPECT_EQ(safetensors_of_folder(folder_.path()), std::nullopt);
  const auto all = read(R"("y":"b.safetensors","x":"a.safetensors","z":"b.safetensors")");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(find_tensor(all, "x")->f32()[1], 5);
  EXPECT_EQ(find_tensor(all, "y")->f32()[2], 7);
  EXPECT_TRUE(is_safetensors_index(folder_ / kName));
  EXPECT_EQ(safetensors_of_folder(folder_.path()), folder_ / kName);
}

TEST_F(SafetensorsIndex, that_does_not_fit_its_files_is_refused_by_name) {
  EXPECT_CONTAINS(refusal(R"("x":"c.safetensors")"), "c.safetensors is missing");
  EXPECT_CONTAINS(refusal(R"("y":"a.safetensors")"), "a.safetensors has no tensor \"y\", which ");
  EXPECT_CONTAINS(refusal(R"("y":"b.safetensors")"), "names 1 of them");
  EXPECT_CONTAINS(refusal(R"("y":"../b.safetensors")"), "is no name of a file beside it");
  EXPECT_CONTAINS(refusal(R"("y":3)"), "the file of tensor \"y\" is no text");
  EXPECT_CONTAINS(refusal(""), "it names no tensor");
  for (const char* text : {"", "[]", "{\"weight_map\": 3}", "{"})
    EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { parse_safetensors_index(text, "i.json"); }),
                    "i.json: it has no object \"weight_map\"");
}

}  // namespace
}  // namespace podium
