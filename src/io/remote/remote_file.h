#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "io/file_bytes.h"

namespace regauge::io {

// Files behind a URL, read by range requests. Every answer has to be of the version of the file
// that was opened, by its ETag or, without one, its date. Connections that are cut are taken up
// where they ended. What the server says is checked as what a file says is. All throw FileError
// and UsageError; both refuse by name if this build reads no remote files.

// Whether the server has a file of this name. It is then opened, and open_remote() takes it.
bool is_remote_file(const std::string& url);
std::shared_ptr<const FileBytes> open_remote(const std::string& url);
// The address of a model that is named by a URL, by hf:// of its commit. A query (a signature, say)
// is kept apart: requests for this address get it, and it is never shown.
std::filesystem::path remote_model(const std::string& given);

}  // namespace regauge::io
