#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace regauge::io {

// What people open and what is not read: each is named, with the way out. All throw UsageError if
// they know what was found and do nothing otherwise. When a format is read, its refusal goes.

// A file, by its first bytes and its name.
void refuse_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
// A folder that lacks the config or the weights of a model.
void refuse_folder(const std::filesystem::path& folder);

}  // namespace regauge::io
