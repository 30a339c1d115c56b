#pragma once

#include <filesystem>

namespace regauge::io {

// The files of a model's folder that are neither weights nor config.json: tokenizer, licence, ...
// A link is followed inside the folder, and from a snapshot of a Hugging Face cache to that
// repository's blobs; a link to anywhere else could carry a file of the user's own into the copy
// and is refused. Throws UsageError, naming all such links.
void check_companions(const std::filesystem::path& folder);

// Checks and copies. Throws FileError.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace regauge::io
