// Plugins that must be refused, one for each value of KIND. Those whose registration runs are made
// with the headers, the others by hand.
#include <stdexcept>

#if KIND == 1  // another version
#include <podium/train/plugin/plugin.h>
extern "C" const podium::PluginBuild* podium_plugin_build() {
  static constexpr podium::PluginBuild kBuild{
      .bytes = sizeof(podium::PluginBuild), .version = "9.8.7", .layout = 1};
  return &kBuild;
}
extern "C" void podium_plugin_register(podium::Registry&) { __builtin_trap(); }
#elif KIND == 2  // this version, other headers
#include <podium/train/plugin/plugin.h>
extern "C" const podium::PluginBuild* podium_plugin_build() {
  static podium::PluginBuild build = podium::this_plugin_build();
  build.layout += 1;
  return &build;
}
extern "C" void podium_plugin_register(podium::Registry&) { __builtin_trap(); }
#elif KIND == 3  // a shared object that is no plugin
extern "C" int anything() { return 3; }
#elif KIND == 4  // a function that the program has not
extern "C" int podium_has_no_such_function();
extern "C" int anything() { return podium_has_no_such_function(); }
#elif KIND == 5  // names that are taken
#include <podium/train/plugin/plugin.h>
PODIUM_PLUGIN(registry) { registry.model("mnist", "another", podium::mnist_model); }
#elif KIND == 6  // throws
#include <podium/train/plugin/plugin.h>
PODIUM_PLUGIN(registry) { throw std::out_of_range("no licence"); }
#elif KIND == 7  // an operation whose gradient is wrong
#include <podium/train/plugin/plugin.h>
namespace {
std::vector<podium::TensorType> infer(const podium::InferContext& c) { return {c.inputs[0]}; }
std::vector<podium::Value> gradient(const podium::GradientContext& c) {
  return {c.output_gradients[0]};
}
void reference(const podium::Attributes&, podium::ConstTensors in, podium::Tensors out) {
  for (std::size_t i = 0; i < in[0]->f32().size(); ++i) out[0]->f32()[i] = 2 * in[0]->f32()[i];
}
std::vector<podium::OpSample> samples() {
  return {{{}, {{podium::DType::kF32, podium::Shape{3, 5}}}}};
}
const podium::OpDef twice_op = {.name = "twice",
                                .infer = infer,
                                .gradient = gradient,
                                .reference = reference,
                                .samples = samples};
}  // namespace
PODIUM_PLUGIN(registry) { registry.operation(twice_op); }
#elif KIND == 8  // throws before its entry point is known
namespace {
int fail() { throw std::out_of_range("no licence file"); }
const int kValue = fail();  // NOLINT(bugprone-throwing-static-initialization): that is its fault
}  // namespace
extern "C" int anything() { return kValue; }
#endif
