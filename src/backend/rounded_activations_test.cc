// Operations that read rounded images, or whose result is rounded, which devices make part of them
// and may keep in BF16: the bits of the reference on every device.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/image_makers_test_util.h"
#include "backend/reference/reference_device.h"
#include "backend/tested_devices_test_util.h"

namespace podium {
namespace {

TEST(RoundedImages, have_the_bits_of_the_reference) {
  register_cuda_emulated_backend();
  std::vector<std::unique_ptr<Device>> devices;
  for (const char* name : {"cpu", "cuda-emulated"}) devices.push_back(make_device(name));
  for (const std::int64_t images : {8, 24, 3})
    for (const ImageMaker& maker : image_makers(images))
      for (const ImageReaders& readers : kImageReaders) {
        // Of several octets, and of images that fill none, what is rounded together, in one way.
        const bool all = images == 8;
        if (!all && readers.operands_are_rounded != readers.result_is_rounded) continue;
        const OperationCase c = image_case(maker, readers);
        const std::vector<Tensor> expected = interpret(c.graph, c.inputs);
        for (const auto& device : devices) {
          std::vector<std::string> ways = ways_to_run(*device);
          if (!all) ways.resize(1);
          for (const std::string& way : ways) {
            choose_way(*device, way);
            const std::vector<Tensor> actual = run_case(*device, c, {});
            for (std::size_t i = 0; i < expected.size(); ++i)
              ASSERT_EQ(first_difference(actual[i], expected[i]), "")
                  << device->name() << " " << way << ": " << maker.op->name << " "
                  << maker.attributes.text() << ", " << images
                  << (readers.operands_are_rounded ? ", of rounded ones" : "")
                  << (readers.result_is_rounded ? ", rounded" : "")
                  << (readers.read_as_floats ? ", read as floats" : "");
          }
        }
      }
  cpu::set_vector_target(cpu::vector_targets().front());
}

}  // namespace
}  // namespace podium
