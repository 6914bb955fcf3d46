#include "backend/cpu/kernels/hash.h"

#include "backend/cpu/kernels/kernel_test_util.h"
#include "base/numerics/hash.h"

namespace podium::cpu {
namespace {

TEST(HashKernel, sums_of_parts_add_up_to_the_hash_of_the_range) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t count : {1, 2, 15, 16, 17, 33, 1000, 65535, 65536, 65537, 200001}) {
      Random random(static_cast<unsigned>(count));
      const Floats x = random.numbers(count);
      // 2^32 - 2: keys go round; beyond it, places do not fit in 32 bits.
      for (const std::uint64_t first : {0ull, 10ull, 0xfffffffeull, 0x123456789aull}) {
        std::vector<std::uint64_t> sums(static_cast<std::size_t>(hash_parts(count)));
        run_parts(hash_parts(count),
                  [&](int part) { hash_part(count, first, x.data(), sums.data(), part); });
        std::uint64_t sum = 0;
        for (const std::uint64_t of_part : sums) sum += of_part;
        ASSERT_EQ(sum, hash_sum(x, first)) << target << " " << count << " from " << first;
      }
    }
  });
}

}  // namespace
}  // namespace podium::cpu
