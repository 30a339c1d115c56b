#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace regauge::io {

// The folders that modules.json names: what sentence-transformers runs behind the model, on its
// hidden states (1_Pooling, 2_Dense). Nothing where there is no modules.json. Throws UsageError for
// one that cannot be read, or that leads out of the folder.
std::vector<std::string> module_folders(const std::filesystem::path& folder);
bool has_modules(const std::filesystem::path& folder);

// The files of a model's folder that are neither weights nor config.json: tokenizer, licence, ...,
// and all files of the folders that modules.json names. A link is followed inside the folder, and
// from a snapshot of a Hugging Face cache to that repository's blobs; a link to anywhere else could
// carry a file of the user's own into the copy and is refused. Throws UsageError, naming all such
// links.
void check_companions(const std::filesystem::path& folder);

// Checks and copies. Throws FileError.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

// What is not copied: other weights, and folders ("onnx/") that modules.json does not name.
std::vector<std::string> left_out(const std::filesystem::path& folder);

}  // namespace regauge::io
