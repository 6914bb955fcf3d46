// The files in an archive (tar, plain or packed by gzip, bzip2, xz or zstd), one after the other,
// by libarchive. Nothing is written to disk. Errors are UserError(kData) that name archive, member
// and remedy; UnreadableFile where the system is at fault.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "files/byte_source.h"

namespace podium {

// A member: its path in the archive and its bytes. Returns whether to go on to the next.
using ArchiveVisitor = std::function<bool(const std::string& member, ByteSource& bytes)>;

// Visits the regular files in their order. Throws where the archive is missing, unreadable, no
// archive, cut short or corrupt, as far as it is read.
void read_archive(const std::string& path, const std::string& remedy, const ArchiveVisitor& visit);
// The same of an archive in memory; `name` stands for its path.
void parse_archive(std::span<const std::uint8_t> bytes, const std::string& name,
                   const std::string& remedy, const ArchiveVisitor& visit);
// The same of a zip archive.
void parse_zip(std::span<const std::uint8_t> bytes, const std::string& name,
               const std::string& remedy, const ArchiveVisitor& visit);

}  // namespace podium
