// The folder rule: which folder of src/ may include which, checked on the #include lines alone.
//
//   - A folder includes itself, the folders that its row names and those that these may include.
//   - A row that names a file (backend/device.h) allows that file and nothing else of its folder.
//   - Backends do not know one another; any of them may use the reference.
//   - The core (base to parallel) includes no third-party header but Highway's,
//     and that in backend/ alone; MPI's is for one file.
//   - Headers that are slow to compile (JSON, TOML, protobuf, ...) stay inside .cc files.
//
// Tests, fuzz targets and benchmarks (x_test.cc, x_fuzz.cc, x_bench.cc) may include anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace podium::house {

struct SourceFile {
  std::string path;  // relative to src/: "ops/images/conv2d.cc"
  std::string text;
};

// One line for each include that breaks a rule: "ops/images/conv2d.cc:7: ops/ may not include
// train/".
std::vector<std::string> violations(const std::vector<SourceFile>& files);

// Every .h and .cc below `src`.
std::vector<SourceFile> read_sources(const std::filesystem::path& src);

}  // namespace podium::house
