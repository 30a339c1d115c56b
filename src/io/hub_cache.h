#pragma once

#include <filesystem>

namespace regauge::io {

// A path as given if there is such a file or folder, or the folder of a model `org/name` in the
// local cache of Hugging Face (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or ~/.cache). Throws FileError
// if there is neither.
std::filesystem::path find_model(const std::filesystem::path& path);

}  // namespace regauge::io
