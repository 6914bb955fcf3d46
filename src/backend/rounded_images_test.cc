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
  for (const std::int64_t images : {8, 3})
    for (const ImageMaker& maker : image_makers(images))
      for (const ImageReaders& readers : kImageReaders) {
        // Of images that fill no octet or block, one combination.
        if (images == 3 && !(readers.operands_are_rounded && readers.result_is_rounded)) continue;
        const OperationCase c = image_case(maker, readers);
        const std::vector<Tensor> expected = interpret(c.graph, c.inputs);
        for (const auto& device : devices)
          for (const std::string& way : ways_to_run(*device)) {
            choose_way(*device, way);
            const std::vector<Tensor> actual = run_case(*device, c, {});
            for (std::size_t i = 0; i < expected.size(); ++i)
              ASSERT_EQ(first_difference(actual[i], expected[i]), "")
                  << device->name() << " " << way << ": " << maker.op->name << " "
                  << maker.attributes.text() << ", " << images
                  << (readers.operands_are_rounded ? ", of rounded ones" : "")
                  << (readers.result_is_rounded ? ", rounded" : "");
          }
      }
  cpu::set_vector_target(cpu::vector_targets().front());
}

}  // namespace
}  // namespace podium
