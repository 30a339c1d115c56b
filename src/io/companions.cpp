#include "companions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

bool is_companion(const fs::path& path) {
  static constexpr std::array<std::string_view, 13> kWeights = {
      ".safetensors", ".bin",  ".pt",        ".pth", ".ckpt", ".gguf",  ".h5",
      ".msgpack",     ".onnx", ".onnx_data", ".ot",  ".npz",  ".tflite"};
  const std::string file = path.filename().string();
  const std::string name = file.substr(0, file.find(".index.json"));  // of shards
  return name != "config.json" && std::none_of(kWeights.begin(), kWeights.end(),
                                               [&](auto end) { return name.ends_with(end); });
}

// Both without links.
bool lies_in(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

// REPOSITORY/blobs, for a folder in REPOSITORY/snapshots; empty elsewhere.
fs::path blobs_of(const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() == "snapshots") return at.parent_path() / "blobs";
  }
  return {};
}

// Where each companion is, and what it is called.
std::vector<std::pair<fs::path, std::string>> companions_of(const fs::path& folder) {
  const fs::path home = fs::canonical(folder);
  const fs::path blobs = blobs_of(home);
  std::vector<std::pair<fs::path, std::string>> found;
  std::string outside;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !is_companion(entry.path())) continue;
    const fs::path file = fs::canonical(entry.path());
    if (lies_in(file, home) || (!blobs.empty() && lies_in(file, blobs))) {
      found.emplace_back(file, entry.path().filename().string());
    } else {
      outside +=
          fmt::format("\n  {} is a link to {}", entry.path().filename().string(), file.string());
    }
  }
  if (!outside.empty()) {
    throw UsageError(fmt::format(
        "[write] {}: links that lead out of the folder are not followed; put the files there "
        "instead, or remove the links:{}",
        folder.string(), outside));
  }
  return found;
}

[[noreturn]] void fail_to_copy(const fs::path& from, const fs::filesystem_error& error) {
  throw FileError(fmt::format("[write] cannot copy the other files of {}: {}", from.string(),
                              error.code().message()));
}

}  // namespace

void check_companions(const fs::path& folder) try {
  companions_of(folder);
} catch (const fs::filesystem_error& error) {
  fail_to_copy(folder, error);
}

void copy_companions(const fs::path& from, const fs::path& to) try {
  for (const auto& [file, name] : companions_of(from)) fs::copy_file(file, to / name);
} catch (const fs::filesystem_error& error) {
  fail_to_copy(from, error);
}

}  // namespace regauge::io
