// For tests: a small writer of tar shards, and what shards need to be tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace podium::test_files {

// A header of a tar with the right checksum. `size` is what the member has, or 11 octal digits.
inline std::string tar_header(const std::string& name, const std::string& size, char type = '0',
                              const std::string& prefix = "", bool gnu = false) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, size);
  put(148, "        ");
  header[156] = type;
  put(257, gnu ? std::string("ustar  ", 8)
               : std::string("ustar\0"
                             "00",
                             8));
  put(345, prefix);
  char sum[8];
  std::snprintf(sum, sizeof sum, "%06o",
                std::accumulate(header.begin(), header.end(), 0U, [](unsigned all, char c) {
                  return all + static_cast<unsigned char>(c);
                }));
  put(148, std::string(sum, 7));
  return header;
}

inline std::string octal(std::size_t size) {
  char text[12];
  std::snprintf(text, sizeof text, "%011zo", size);
  return text;
}

// A member, filled up to whole blocks.
inline std::string tar_member(const std::string& name, std::string bytes, char type = '0') {
  std::string member = tar_header(name, octal(bytes.size()), type);
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return member + bytes;
}

inline std::string tar_end() { return std::string(1024, '\0'); }

struct TarExample {
  std::string key, picture;
  std::string label;
  std::string suffix = ".jpg";
};
inline std::string tar_of(const std::vector<TarExample>& examples) {
  std::string tar;
  for (const TarExample& example : examples)
    tar += tar_member(example.key + example.suffix, example.picture) +
           tar_member(example.key + ".cls", example.label);
  return tar + tar_end();
}

}  // namespace podium::test_files
