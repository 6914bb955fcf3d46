#include "onnx/onnx_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/pairs/pairs.h"
#include "data/sounds/sound_options.h"
#include "data/text/text.h"
#include "onnx/model.pb.h"
#include "train/program/program.h"
#include "train/run/rank_plan.h"

namespace podium {
namespace {

// Small networks, and the fields that each reads.
struct Network {
  std::string name, recipe;
  std::vector<Field> fields;
};

std::vector<Network> networks() {
  const std::vector<Field> words = {
      {.name = "tokens", .dtype = DType::kI32, .shape = Shape{12}, .below = 30},
      {.name = "label",
       .dtype = DType::kI32,
       .below = 2,
       .words = {"bad", "good"},
       .target = true}};
  const std::vector<Field> frames = {
      {.name = kFramesField,
       .shape = Shape{12, 5},
       .mean = {1, 2, 3, 4, 5},
       .deviation = {2, 2, 2, 2, 2}},
      {.name = "label", .dtype = DType::kI32, .below = 3, .target = true}};
  const std::vector<Field> numbers = {
      {.name = "features", .shape = Shape{4}, .mean = {1, 1, 1, 1}, .deviation = {2, 2, 2, 2}},
      {.name = "price", .target = true, .mean = {100}, .deviation = {20}}};
  const std::string small = "[network]\nlayers = 2\nwidth = 16\n", heads = small + "heads = 4\n",
                    text = "[data]\nname = \"text\"\npath = \"a.txt\"\ncontext = 12\n";
  return {
      {"gpt", "model = \"gpt\"\n" + heads + text, text_fields(12, 30)},
      {"llama", "model = \"llama\"\n" + heads + "groups = 2\n" + text, text_fields(12, 30)},
      {"lstm", "model = \"lstm\"\n" + small + text + "order = \"streams\"\n", text_fields(12, 30)},
      {"gru", "model = \"gru\"\n" + small + text + "order = \"streams\"\n", text_fields(12, 30)},
      {"text_cnn",
       "model = \"text-cnn\"\n[network]\nwidth = 16\nhidden = 8\n[data]\n"
       "name = \"sentences\"\npath = \"a.csv\"\ncontext = 12\n",
       words},
      {"bilstm",
       "model = \"bilstm\"\n" + small +
           "[data]\nname = \"sounds\"\npath = \"a\"\n"
           "context = 12\n",
       frames},
      {"perceptron",
       "model = \"perceptron\"\n" + small +
           "[data]\nname = \"table\"\n"
           "path = \"a.csv\"\ntarget = \"price\"\n",
       numbers},
      {"transformer",
       "model = \"transformer\"\n" + heads +
           "[data]\nname = \"pairs\"\n"
           "path = \"a.tsv\"\ncontext = 12\n",
       pair_fields(12, 30)},
  };
}

// A file of the network, whose values are all 0.
onnx_file::Model file_of(const Recipe& recipe, const std::vector<Field>& fields) {
  const Model model = model_of(recipe);
  const ReplicaProgram program =
      build_replica_program(model, batch_inputs(recipe, fields, 4), 1, 4, false);
  Checkpoint checkpoint;
  checkpoint.step = 7;
  for (const auto* list : {&program.layout.parameters, &program.layout.statistics})
    for (const FlatEntry& entry : *list)
      checkpoint.tensors.push_back({entry.name, Tensor(entry.type)});
  onnx_file::Model file;
  EXPECT_TRUE(file.ParseFromString(onnx_file_of(recipe, model, fields, checkpoint)));
  return file;
}

// Each value is there before it is read, and has one name.
void expect_order(const onnx_file::Graph& graph, std::set<std::string> known) {
  for (const auto& value : graph.input()) EXPECT_TRUE(known.insert(value.name()).second);
  for (const auto& tensor : graph.initializer())
    EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
  for (const auto& node : graph.node()) {
    for (const auto& input : node.input()) EXPECT_TRUE(known.contains(input)) << input;
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) expect_order(attribute.g(), known);
    for (const auto& output : node.output()) EXPECT_TRUE(known.insert(output).second) << output;
  }
  for (const auto& value : graph.output()) EXPECT_TRUE(known.contains(value.name()));
}

// "images: batch 3 32 32"
std::string text_of(const onnx_file::Value& value) {
  std::string text = value.name() + ":";
  for (const auto& extent : value.type().tensor_type().shape().dim())
    text += " " + (extent.has_dim_param() ? extent.dim_param() : cat(extent.dim_value()));
  return text;
}

std::map<std::string, std::string> properties(const onnx_file::Model& file) {
  std::map<std::string, std::string> all;
  for (const auto& property : file.metadata_props()) all[property.key()] = property.value();
  return all;
}

TEST(OnnxFile, has_every_network_of_pictures) {
  for (const char* name : {"mnist", "cifar10-sprint", "cifar10-davidnet", "cifar10-resnet32",
                           "imagenet-resnet50", "glyphs"}) {
    SCOPED_TRACE(name);
    const Recipe recipe = read_recipe(find_recipe(name), {});
    const std::vector<Field> fields = stated_shape(recipe).fields;
    const onnx_file::Model file = file_of(recipe, fields);
    expect_order(file.graph(), {});
    ASSERT_EQ(file.graph().input_size(), 1);
    EXPECT_EQ(file.graph().input(0).type().tensor_type().elem_type(), onnx_file::Tensor::UINT8);
    const Shape& shape = fields[0].shape;
    EXPECT_EQ(text_of(file.graph().input(0)),
              cat("images: batch ", shape[0], " ", shape[1], " ", shape[2]));
    EXPECT_EQ(text_of(file.graph().output(0)), cat("logits: batch ", fields[1].below));
  }
}

TEST(OnnxFile, has_every_other_network) {
  for (const auto& [name, text, fields] : networks()) {
    SCOPED_TRACE(name);
    const Recipe recipe = parse_recipe(text + "[optimizer]\nname = \"adam\"\nlearning_rate = 0.1\n",
                                       "x.toml", {"batch=4", "epochs=1"});
    const onnx_file::Model file = file_of(recipe, fields);
    expect_order(file.graph(), {});
    EXPECT_EQ(file.opset_import(0).version(), 17);
    EXPECT_EQ(properties(file)["step"], "7");
    std::string io;
    for (const auto& value : file.graph().input()) io += text_of(value) + "; ";
    for (const auto& value : file.graph().output()) io += text_of(value) + "; ";
    if (name == "transformer") {
      EXPECT_EQ(io, "source: batch 12; source_length: batch; tokens: batch 12; logits: batch 30; ");
    } else if (name == "perceptron") {
      EXPECT_EQ(io, "features: batch 4; prediction: batch 1; ");
    } else if (name == "text_cnn") {
      EXPECT_EQ(properties(file)["labels"], "[\"bad\",\"good\"]");
    } else if (name == "lstm" || name == "gru") {  // tokens; of two layers two states or one each
      EXPECT_EQ(file.graph().input_size(), name == "lstm" ? 5 : 3) << io;
    }
  }
}

}  // namespace
}  // namespace podium
