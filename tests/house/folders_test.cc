#include "tests/house/folders.h"

#include <gtest/gtest.h>

#include <numeric>

namespace podium::house {
namespace {

using Lines = std::vector<std::string>;

Lines check(const std::string& path, const std::string& text) { return violations({{path, text}}); }

TEST(House, every_include_of_src_is_allowed) {
  const std::vector<SourceFile> files =
      read_sources("src");  // ctest starts in the root of the tree
  ASSERT_GT(files.size(), 10U);
  const Lines found = violations(files);
  const std::string text =
      std::accumulate(found.begin(), found.end(), std::string(),
                      [](const std::string& a, const std::string& b) { return a + b + "\n"; });
  EXPECT_TRUE(found.empty()) << text << "The table stands in tests/house/folders.cc.";
}

TEST(House, a_folder_may_include_what_its_row_names_and_what_that_stands_on) {
  EXPECT_EQ(
      check("train/loop/step.cc", "#include \"parallel/tree.h\"\n#include \"base/error.h\"\n"),
      Lines{});
  EXPECT_EQ(check("nn/layers.h", "#include \"graph/graph.h\"\n#include \"tensor/tensor.h\"\n"),
            Lines{});
}

TEST(House, an_include_upwards_is_reported_with_its_line) {
  EXPECT_EQ(
      check("ops/images/conv2d.cc", "// x\n#include \"ops/conv2d.h\"\n#include \"train/step.h\"\n"),
      Lines{"ops/images/conv2d.cc:3: ops/ may not include train/step.h"});
}

TEST(House, a_neighbour_that_the_row_does_not_name_is_reported) {
  EXPECT_EQ(check("data/pictures/loader.cc", "#include \"graph/graph.h\"\n"),
            Lines{"data/pictures/loader.cc:1: data/ may not include graph/graph.h"});
  EXPECT_EQ(check("optim/sgd.cc", "#  include \"nn/layers.h\"\n"),
            Lines{"optim/sgd.cc:1: optim/ may not include nn/layers.h"});
}

TEST(House, a_room_may_include_the_rooms_that_its_row_names) {
  EXPECT_EQ(check("train/run/run.cc", "#include \"train/loop/trainer.h\"\n"), Lines{});
  EXPECT_EQ(check("train/loop/step.cc", "#include \"train/run/run.h\"\n"),
            Lines{"train/loop/step.cc:1: train/loop/ may not include train/run/run.h"});
}

TEST(House, a_row_that_names_one_file_allows_that_file_alone) {
  EXPECT_EQ(check("parallel/exchange.cc", "#include \"backend/device.h\"\n"), Lines{});
  EXPECT_EQ(check("parallel/exchange.cc", "#include \"backend/cpu/arena.h\"\n"),
            Lines{"parallel/exchange.cc:1: parallel/ may not include backend/cpu/arena.h"});
}

TEST(House, backends_do_not_know_one_another_but_all_know_the_reference) {
  EXPECT_EQ(check("backend/cpu/fold.cc", "#include \"backend/reference/interpreter.h\"\n"),
            Lines{});
  EXPECT_EQ(check("backend/reference/run.cc", "#include \"backend/cpu/kernel.h\"\n"),
            Lines{"backend/reference/run.cc:1: backend/reference/ may not include "
                  "backend/cpu/kernel.h of another backend"});
}

TEST(House, the_core_takes_no_library_but_highway) {
  EXPECT_EQ(check("backend/cpu/add.cc", "#include <vector>\n#include \"hwy/highway.h\"\n"),
            Lines{});
  EXPECT_EQ(check("ops/add.cc", "#include \"hwy/highway.h\"\n"),
            Lines{"ops/add.cc:1: Highway belongs in backend/, not hwy/highway.h"});
  EXPECT_EQ(check("graph/dump.cc", "#include <fmt/format.h>\n"),
            Lines{"graph/dump.cc:1: the core may include no third-party header but Highway's, not "
                  "fmt/format.h"});
}

TEST(House, mpi_is_known_to_one_file) {
  EXPECT_EQ(check("parallel/mpi_transport.cc", "#include <mpi.h>\n"), Lines{});
  EXPECT_EQ(check("parallel/ranks.cc", "#include <mpi.h>\n"),
            Lines{"parallel/ranks.cc:1: MPI belongs in parallel/mpi_transport.cc, not mpi.h"});
  EXPECT_EQ(check("cli/main.cc", "#include <mpi.h>\n"),
            Lines{"cli/main.cc:1: MPI belongs in parallel/mpi_transport.cc, not mpi.h"});
}

TEST(House, slow_headers_stay_in_cc_files) {
  EXPECT_EQ(check("train/recipe/recipe.cc", "#include <toml++/toml.h>\n"), Lines{});
  EXPECT_EQ(check("train/recipe/recipe.h", "#include <toml++/toml.h>\n"),
            Lines{"train/recipe/recipe.h:1: toml++/toml.h belongs in a .cc file"});
}

TEST(House, includes_are_written_from_src) {
  EXPECT_EQ(check("base/numerics/hash.cc", "#include \"hash.h\"\n"),
            Lines{"base/numerics/hash.cc:1: include \"hash.h\" by its path from src/"});
  EXPECT_EQ(check("train/machine/environment.cc", "#include \"podium_version.h\"\n"), Lines{});
}

TEST(House, a_folder_without_a_row_is_reported) {
  EXPECT_EQ(check("utils/misc.cc", ""),
            Lines{"utils/misc.cc: the folder utils/ has no row in the table"});
}

TEST(House, tests_may_include_anything) {
  EXPECT_EQ(check("base/numerics/hash_test.cc", "#include \"train/step.h\"\n"), Lines{});
}

TEST(House, what_is_no_include_line_is_left_alone) {
  EXPECT_EQ(
      check("base/a.cc", "// #include \"train/step.h\"\nauto s = \"#include\";\n#include X\n"),
      Lines{});
}

}  // namespace
}  // namespace podium::house
