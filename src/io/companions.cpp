#include "companions.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file_bytes.h"
#include "json.h"
#include "partial.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

bool is_companion(const fs::path& path) {
  static constexpr std::array<std::string_view, 15> kWeights = {
      ".safetensors", ".bin",       ".pt", ".pth", ".ckpt",   ".gguf",   ".h5",      ".msgpack",
      ".onnx",        ".onnx_data", ".ot", ".npz", ".tflite", ".distcp", ".metadata"};
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
  const auto add = [&](const fs::path& path) {
    const fs::path file = fs::canonical(path);
    const std::string name = path.lexically_relative(folder).string();
    if (lies_in(file, home) || (!blobs.empty() && lies_in(file, blobs))) {
      found.emplace_back(file, name);
    } else {
      outside += fmt::format("\n  {} is a link to {}", name, file.string());
    }
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_companion(entry.path())) add(entry.path());
  }
  for (const std::string& name : module_folders(folder)) {
    if (!fs::is_directory(folder / name)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / name)) {
      if (entry.is_regular_file()) add(entry.path());
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

bool has_modules(const fs::path& folder) { return is_file(folder / "modules.json"); }

std::vector<std::string> module_folders(const fs::path& folder) {
  if (!has_modules(folder)) return {};
  const std::string where = (folder / "modules.json").string();
  const std::string text = read_json_text(folder / "modules.json", where);
  const auto modules = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> names;
  bool good = modules.is_array();
  for (const auto& module : modules) {
    const auto path = good && module.is_object() ? module.find("path") : module.end();
    good = good && module.is_object() && path != module.end() && path->is_string();
    if (!good) break;
    const fs::path name = fs::path(path->get<std::string>()).lexically_normal();
    if (name.empty() || name == ".") continue;  // the model itself
    if (name.is_absolute() || *name.begin() == "..") {
      throw UsageError(fmt::format("[open] {}: a module's path, {}, leads out of the folder", where,
                                   name.string()));
    }
    names.push_back(name.string());
  }
  if (!good) {
    throw UsageError(
        fmt::format("[open] {}: expected a list of modules, each with its path", where));
  }
  return names;
}

std::vector<std::string> left_out(const fs::path& folder) {
  const std::vector<std::string> modules = module_folders(folder);
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    if (at->is_directory(unknown)) {
      const bool copied = std::ranges::any_of(
          modules, [&](const std::string& module) { return *fs::path(module).begin() == name; });
      if (!copied && !name.starts_with('.')) names.push_back(name + "/");
    } else if (name != "config.json" && !is_companion(at->path())) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

void check_companions(const fs::path& folder) try {
  companions_of(folder);
} catch (const fs::filesystem_error& error) {
  fail_to_copy(folder, error);
}

void copy_companions(const fs::path& from, const fs::path& to) try {
  for (const auto& [file, name] : companions_of(from)) {
    fs::create_directories((to / name).parent_path());
    io::copy_file(file, to / name);
  }
} catch (const fs::filesystem_error& error) {
  fail_to_copy(from, error);
}

}  // namespace regauge::io
