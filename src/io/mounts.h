#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace regauge::io {

// Whether a page fault of a mapped file there is a request to a server or to another process: on
// network file systems, those in user space, and overlays that have one of them below. False where
// the system does not say.
bool faults_are_requests(const std::filesystem::path& path);

// Whether this is the number of such a file system in Linux's statfs.
bool is_remote_type(std::uint64_t type);

// The folders below an overlay that is mounted at one of the folders around `path`, from the text
// of /proc/self/mountinfo; empty if the innermost mount is no overlay.
std::vector<std::filesystem::path> overlaid_folders(std::string_view mounts,
                                                    const std::filesystem::path& path);

}  // namespace regauge::io
