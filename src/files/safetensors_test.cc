#include "files/safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

Tensor counting(Shape shape, float first = 0) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::iota(tensor.f32().begin(), tensor.f32().end(), first);
  return tensor;
}

std::vector<NamedTensor> sample() {
  std::vector<NamedTensor> tensors;
  tensors.push_back({"conv1.weight", counting({2, 1, 3, 3}, -4)});
  tensors.push_back({"empty", Tensor(DType::kF32, Shape{0, 5})});
  tensors.push_back({"bn1.running_mean", counting({3})});
  Tensor labels(DType::kI32, Shape{4});
  std::iota(labels.i32().begin(), labels.i32().end(), -2);
  tensors.push_back({"labels", labels});
  tensors.push_back({"step", Tensor::scalar(std::uint32_t{0xFFFFFFFEu})});
  return tensors;
}

std::vector<std::byte> file_of(std::string_view header, std::size_t data_bytes) {
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

// The error that a file of this header and so many zero bytes of data gives.
std::string error_of(std::string_view header, std::size_t data_bytes) {
  const std::vector<std::byte> bytes = file_of(header, data_bytes);
  const std::string text =
      user_error(ExitCode::kData, [&] { parse_safetensors(bytes, "a.safetensors"); });
  EXPECT_TRUE(text.starts_with("a.safetensors: ")) << text;
  return text;
}

TEST(Safetensors, what_is_written_is_read) {
  const TestFolder folder;
  const std::map<std::string, std::string> metadata = {{"step", "12"},
                                                       {"recipe", "a = \"ä\"\nb = 1\n"}};
  const std::vector<NamedTensor> tensors = sample();
  const WrittenFile written = write_safetensors(folder / "a.safetensors", tensors, metadata);
  EXPECT_EQ(written.bytes, std::filesystem::file_size(folder / "a.safetensors"));

  const SafetensorsFile file = read_safetensors(folder / "a.safetensors");
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.tensors[i].name, tensors[i].name);
    EXPECT_EQ(file.tensors[i].tensor.type(), tensors[i].tensor.type());
    EXPECT_EQ(std::memcmp(file.tensors[i].tensor.data(), tensors[i].tensor.data(),
                          static_cast<std::size_t>(tensors[i].tensor.type().bytes())),
              0);
  }
  EXPECT_EQ(file.find("labels")->i32()[0], -2);
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST(Safetensors, equal_tensors_give_equal_bytes) {
  const TestFolder folder;
  write_safetensors(folder / "a", sample(), {{"x", "1"}, {"b", "2"}});
  write_safetensors(folder / "b", sample(), {{"b", "2"}, {"x", "1"}});
  EXPECT_EQ(file_text(folder / "a"), file_text(folder / "b"));
}

TEST(Safetensors, a_file_without_tensors_is_a_file) {
  const TestFolder folder;
  write_safetensors(folder / "a", {});
  EXPECT_TRUE(read_safetensors(folder / "a").tensors.empty());
}

TEST(Safetensors, a_failed_write_leaves_the_old_file_and_nothing_beside_it) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "a" / "inside");  // rename onto it must fail
  user_error(ExitCode::kData, [&] { write_safetensors(folder / "a", sample()); });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, a_missing_file_or_folder_is_named) {
  EXPECT_CONTAINS(user_error(ExitCode::kData, [] { read_safetensors("/nowhere/a"); }),
                  "/nowhere/a: cannot open: No such file");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [] { read_safetensors("/"); }), "regular file");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [] { write_safetensors("/nowhere/a", {}); }),
                  "/nowhere/a");
}

TEST(Safetensors, counters_of_64_bits_are_read_as_32) {
  std::vector<std::byte> bytes =
      file_of(R"({"n":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})", 16);
  const std::int64_t values[] = {7, -8};
  std::memcpy(bytes.data() + bytes.size() - 16, values, 16);
  const SafetensorsFile file = parse_safetensors(bytes, "a");
  EXPECT_EQ(file.find("n")->i32()[0], 7);
  EXPECT_EQ(file.find("n")->i32()[1], -8);

  bytes.back() = std::byte{1};
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { parse_safetensors(bytes, "a"); }),
                  "does not fit in 32 bits");
}

TEST(Safetensors, s1_a_header_longer_than_the_file_is_refused) {
  const std::vector<std::byte> good =
      file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto cut = std::span(good).first(size);
    user_error(ExitCode::kData, [&] { parse_safetensors(cut, "a"); });
  }
  std::vector<std::byte> huge = good;
  huge[7] = std::byte{0x80};
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { parse_safetensors(huge, "a"); }),
                  "header length");
}

TEST(Safetensors, s2_a_header_that_is_no_object_is_refused) {
  EXPECT_CONTAINS(error_of("", 0), "does not begin with '{'");
  EXPECT_CONTAINS(error_of("[1]", 0), "does not begin with '{'");
  EXPECT_CONTAINS(error_of("{\"a\":", 0), "not JSON");
  EXPECT_CONTAINS(error_of("{} {}", 0), "not JSON");
  EXPECT_CONTAINS(error_of("{\"\xff\":{}}", 0), "not JSON");
  EXPECT_CONTAINS(error_of(R"({"a":1})", 0), "each key must have an object");
  EXPECT_CONTAINS(error_of(R"({"a":[[[[[[]]]]]]})", 0), "each key must have an object");
  const std::string one = R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_CONTAINS(error_of("{" + one + "," + one + "}", 0), "twice");
}

TEST(Safetensors, s3_metadata_that_are_no_strings_are_refused) {
  EXPECT_CONTAINS(error_of(R"({"__metadata__":{"a":1}})", 0), "metadata must be strings");
  EXPECT_CONTAINS(error_of(R"({"__metadata__":{"a":{}}})", 0), "metadata must be strings");
  EXPECT_CONTAINS(error_of(R"({"__metadata__":[]})", 0), "each key must have an object");
  EXPECT_CONTAINS(error_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "twice");
}

TEST(Safetensors, s4_a_tensor_of_other_keys_or_type_is_refused) {
  EXPECT_CONTAINS(error_of(R"({"a":{}})", 0), "tensor \"a\": dtype, shape and data_offsets");
  EXPECT_CONTAINS(error_of(R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,2]}})", 2),
                  "dtype F64 is not one of");
  EXPECT_CONTAINS(error_of(R"({"a":{"dtype":4,"shape":[],"data_offsets":[0,4]}})", 4),
                  "dtype must be a string");
  EXPECT_CONTAINS(error_of(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4), "appears twice");
  EXPECT_CONTAINS(error_of(R"({"a":{"device":"cpu"}})", 4), "the key \"device\"");
}

TEST(Safetensors, s5_a_shape_that_overflows_or_is_negative_is_refused) {
  const auto with_shape = [](std::string_view shape) {
    return error_of(cat(R"({"a":{"dtype":"F32","shape":[)", shape, R"(],"data_offsets":[0,4]}})"),
                    4);
  };
  EXPECT_CONTAINS(with_shape("-1"), "negative");
  EXPECT_CONTAINS(with_shape("1.5"), "whole");
  EXPECT_CONTAINS(with_shape("99999999999999999999"), "whole");
  EXPECT_CONTAINS(with_shape("4294967296,4294967296"), "product");
  EXPECT_CONTAINS(with_shape("0,4294967296,4294967296"), "product");
  EXPECT_CONTAINS(with_shape("18446744073709551615"), "product");
  EXPECT_CONTAINS(with_shape("[1]"), "shape must be a list of numbers");
  EXPECT_CONTAINS(with_shape("\"1\""), "shape must be a list of numbers");
  std::string many = "1";
  for (int i = 0; i < 40; ++i) many += ",1";
  EXPECT_CONTAINS(with_shape(many), "more than 32");
}

TEST(Safetensors, s6_offsets_that_disagree_with_the_shape_are_refused) {
  const auto with_offsets = [](std::string_view offsets) {
    return error_of(cat(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[)", offsets, "]}}"), 8);
  };
  EXPECT_CONTAINS(with_offsets("0,4"), "span 4 bytes, the shape needs 8");
  EXPECT_CONTAINS(with_offsets("8,0"), "lie outside");
  EXPECT_CONTAINS(with_offsets("0,9"), "lie outside");
  EXPECT_CONTAINS(with_offsets("0"), "two numbers");
  EXPECT_CONTAINS(with_offsets("0,8,8"), "two numbers");
  EXPECT_CONTAINS(with_offsets("-8,0"), "negative");
  EXPECT_CONTAINS(with_offsets("18446744073709551608,0"), "lie outside");
}

TEST(Safetensors, s7_gaps_overlaps_and_rests_are_refused) {
  const auto two = [](std::string_view a, std::string_view b, std::size_t bytes) {
    return error_of(cat(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[)", a,
                        R"(]},"b":{"dtype":"F32","shape":[1],"data_offsets":[)", b, "]}}"),
                    bytes);
  };
  EXPECT_CONTAINS(two("0,4", "8,12", 12), "gap");
  EXPECT_CONTAINS(two("0,4", "2,6", 8), "inside");
  EXPECT_CONTAINS(two("0,4", "0,4", 4), "inside");
  EXPECT_CONTAINS(two("4,8", "8,12", 12), "gap");
  EXPECT_CONTAINS(two("0,4", "4,8", 9), "1 bytes after the last tensor");
}

TEST(Safetensors, numbers_of_sixteen_bits_are_read_with_their_values) {
  std::string text = R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},)"
                     R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}})";
  const std::uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += text;
  for (const std::uint16_t bits : {0x3e00, 0xc000, 0x8001, 0x7c00, 0x7bff, 0x0400, 0x3fc0, 0xff80})
    file.append(reinterpret_cast<const char*>(&bits), 2);
  const SafetensorsFile read = parse_safetensors(std::as_bytes(std::span(file)), "a.safetensors");
  const auto half = read.find("h")->f32();
  const std::vector<float> expected = {1.5f, -2, -0x1p-24f, INFINITY, 65504, 0x1p-14f};
  EXPECT_TRUE(std::ranges::equal(half, expected));
  EXPECT_EQ(read.find("b")->f32()[0], 1.5f);
  EXPECT_EQ(read.find("b")->f32()[1], -INFINITY);
}

TEST(Safetensors, are_written_in_half_of_the_bytes) {
  const TestFolder folder;
  Tensor tensor(DType::kF32, {8});
  const float values[] = {1, -0.1f, 65504, 6e-8f, 3e-8f, 1e-40f, 2049, -0.0f};
  std::ranges::copy(values, tensor.f32().begin());
  const std::vector<NamedTensor> tensors = {{"x", tensor}};
  // What NumPy and PyTorch round to.
  const float half[] = {1, -0.0999755859375f, 65504, 5.9604645e-8f, 5.9604645e-8f, 0, 2048, -0.0f};
  const float brain[] = {
      1, -0.10009765625f, 65536, 6.0070306e-8f, 3.0035153e-8f, 9.18355e-41f, 2048, -0.0f};
  for (const auto& [format, expected] :
       {std::pair{FloatFormat::kFp16, half}, std::pair{FloatFormat::kBf16, brain}}) {
    write_safetensors(folder / "half", tensors, {}, format);
    const Tensor read = read_safetensors(folder / "half").tensors.at(0).tensor;
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(read.f32()[i], expected[i]) << i;
      EXPECT_EQ(std::signbit(read.f32()[i]), std::signbit(expected[i])) << i;
    }
  }
  tensor.f32()[0] = 65520;
  EXPECT_CONTAINS(
      user_error(ExitCode::kData,
                 [&] {
                   write_safetensors(folder / "half", {{{"x", tensor}}}, {}, FloatFormat::kFp16);
                 }),
      "\"x\" has 65520, which is too large for F16");
}

TEST(Safetensors, tensors_come_in_the_order_of_their_bytes) {
  const std::vector<std::byte> bytes =
      file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
              R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
              8);
  const SafetensorsFile file = parse_safetensors(bytes, "a");
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[1].name, "b");
}

TEST(Safetensors, a_file_with_any_flipped_bits_is_read_or_refused) {
  const TestFolder folder;
  write_safetensors(folder / "a", sample(), {{"step", "1"}});
  const std::string good = file_text(folder / "a");
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 1 + i % 3; ++flips)
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    try {
      parse_safetensors(std::as_bytes(std::span(bad)), "a");
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, python_reads_what_is_written) {
  if (!python_has("safetensors")) GTEST_SKIP() << "python3 has no safetensors";
  const TestFolder folder;
  write_safetensors(folder / "a", sample(), {{"step", "12"}});
  std::string output;
  ASSERT_TRUE(run_python(R"(
import json, struct, sys
import safetensors
raw = open(sys.argv[1], 'rb').read()
for name, t in sorted(safetensors.deserialize(raw)):
    kind = {'F32': 'f', 'I32': 'i', 'U32': 'I'}[t['dtype']]
    values = struct.unpack('<%d%s' % (len(t['data']) // 4, kind), bytes(t['data']))
    print(name, t['dtype'], list(t['shape']), *(values[:2] + values[-1:]))
print(json.loads(raw[8:8 + struct.unpack('<Q', raw[:8])[0]])['__metadata__'])
)",
                         folder / "a", &output));
  EXPECT_EQ(output,
            "bn1.running_mean F32 [3] 0.0 1.0 2.0\n"
            "conv1.weight F32 [2, 1, 3, 3] -4.0 -3.0 13.0\n"
            "empty F32 [0, 5]\n"
            "labels I32 [4] -2 -1 1\n"
            "step U32 [] 4294967294 4294967294\n"
            "{'step': '12'}\n");
}

TEST(Safetensors, what_python_writes_is_read) {
  if (!python_has("safetensors.numpy")) GTEST_SKIP() << "python3 has no safetensors and numpy";
  const TestFolder folder;
  std::string output;
  ASSERT_TRUE(run_python(R"(
import sys
import numpy
from safetensors.numpy import save_file
save_file({'fc1.weight': numpy.array([[1.5, -2]], numpy.float32),
           'bn1.num_batches_tracked': numpy.array(9, numpy.int64)}, sys.argv[1], {'format': 'pt'})
)",
                         folder / "a", &output));
  const SafetensorsFile file = read_safetensors(folder / "a");
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(file.find("fc1.weight")->shape(), (Shape{1, 2}));
  EXPECT_EQ(file.find("fc1.weight")->f32()[1], -2.0f);
  EXPECT_EQ(file.find("bn1.num_batches_tracked")->i32()[0], 9);
}

}  // namespace
}  // namespace podium
