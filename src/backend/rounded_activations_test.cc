// Operations that read rounded images or tokens, or whose result is rounded, which devices make
// part of them and may keep in BF16: the bits of the reference on every device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/activation_makers_test_util.h"
#include "backend/reference/reference_device.h"
#include "backend/tested_devices_test_util.h"

namespace podium {
namespace {

class RoundedActivations : public testing::Test {
 protected:
  RoundedActivations() {
    register_cuda_emulated_backend();
    for (const char* name : {"cpu", "cuda-emulated"}) devices_.push_back(make_device(name));
  }
  ~RoundedActivations() override { cpu::set_vector_target(cpu::vector_targets().front()); }

  // `all`: who may round and read in every way, the devices in all ways to run; otherwise what is
  // rounded together, in one way.
  template <typename Case>
  void expect_bits(const std::vector<ActivationMaker>& makers, const Case& case_of, bool all) {
    for (const ActivationMaker& maker : makers)
      for (const CaseReaders& readers : kCaseReaders) {
        if (!all && readers.operands_are_rounded != readers.result_is_rounded) continue;
        const OperationCase c = case_of(maker, readers);
        const std::vector<Tensor> expected = interpret(c.graph, c.inputs);
        for (const auto& device : devices_) {
          std::vector<std::string> ways = ways_to_run(*device);
          if (!all || std::getenv("PODIUM_CASES") != nullptr) ways.resize(1);  // under sanitizers

          for (const std::string& way : ways) {
            choose_way(*device, way);
            const std::vector<Tensor> actual = run_case(*device, c, {});
            for (std::size_t i = 0; i < expected.size(); ++i)
              ASSERT_EQ(first_difference(actual[i], expected[i]), "")
                  << device->name() << " " << way << ": " << maker.op->name << " "
                  << maker.attributes.text() << ", " << to_string(maker.operands[0])
                  << (readers.operands_are_rounded ? ", of rounded ones" : "")
                  << (readers.result_is_rounded ? ", rounded" : "")
                  << (readers.read_as_floats ? ", read as floats" : "");
          }
        }
      }
  }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

// Of one octet and of several, and of images and columns that fill none.
TEST_F(RoundedActivations, of_images_have_the_bits_of_the_reference) {
  for (const std::int64_t images : {8, 24, 3})
    expect_bits(image_makers(images), image_case, images == 8);
}
TEST_F(RoundedActivations, of_tokens_have_the_bits_of_the_reference) {
  for (const std::int64_t columns : {32, 16, 12})
    expect_bits(token_makers(columns), token_case, columns == 32);
}

}  // namespace
}  // namespace podium
