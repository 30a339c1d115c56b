#pragma once

#include <filesystem>
#include <string>

namespace regauge::lab {

// The bytes of a regular file, unpacked if it is gzipped; at most 1 GiB of them. `where` begins the
// message. Throws FileError or CorruptFile.
std::string read_file(const std::filesystem::path& path, const std::string& where);

}  // namespace regauge::lab
