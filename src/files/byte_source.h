// A stream of bytes from a file or memory; gzip is recognised by its first bytes and unpacked on
// the way, in memory that does not grow with it. Errors are UserError(kData) that name the file and
// the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace podium {

// The system could not open or read a file: its bytes may be sound.
class UnreadableFile : public UserError {
 public:
  explicit UnreadableFile(const std::string& what) : UserError(what, ExitCode::kData) {}
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out` as far as the stream goes; returns the bytes written (fewer: the end was reached).
  // Throws on a read error and on gzip that is cut or corrupt.
  virtual std::size_t read(std::span<std::uint8_t> out) = 0;
  // No more than this many bytes can follow in all, by the size of the file: a bound that lets a
  // reader refuse a header that promises too much before it takes the memory.
  virtual std::uint64_t most_bytes() const = 0;
  virtual bool packed() const = 0;
};

// Throws UnreadableFile where the file is missing or may not be read, and UserError where it is a
// folder, pipe or device. `remedy` ends each error's text.
std::unique_ptr<ByteSource> open_file(const std::string& path, const std::string& remedy);
// All that is left of a source, of which `name` begins the error's text where that is more than so
// many bytes.
std::string all_bytes(ByteSource& source, const std::string& name, const std::string& remedy,
                      std::uint64_t most);
// All of a file that has at most so many bytes, unpacked. Throws likewise.
std::string unpacked_text(const std::string& path, const std::string& remedy, std::uint64_t most);
// The same of the file as it lies on disk: gzip stays packed.
std::unique_ptr<ByteSource> open_file_as_is(const std::string& path, const std::string& remedy);
// `bytes` must outlive the source; `name` stands for the path in errors.
std::unique_ptr<ByteSource> open_bytes(std::span<const std::uint8_t> bytes, const std::string& name,
                                       const std::string& remedy);

}  // namespace podium
