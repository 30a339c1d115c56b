#include "hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

// org/name, as the hub allows them.
bool is_hub_id(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  if (text.find('/', slash + 1) != std::string::npos || text[0] == '.') return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  });
}

fs::path hub_cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  fs::path base = variable("XDG_CACHE_HOME");
  if (base.empty()) base = variable("HOME") / ".cache";
  return base / "huggingface" / "hub";
}

}  // namespace

fs::path find_model(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  std::string id = path.string();
  if (!is_hub_id(id)) {
    throw FileError(fmt::format("[open] {}: no such file or folder", path.string()));
  }
  const std::string name = id.replace(id.find('/'), 1, "--");
  const fs::path model = hub_cache() / ("models--" + name);
  std::ifstream ref(model / "refs" / "main");
  std::string commit;
  ref >> commit;
  const bool plain =
      !commit.empty() &&
      std::all_of(commit.begin(), commit.end(), [](unsigned char c) { return std::isxdigit(c); });
  const fs::path snapshot = model / "snapshots" / commit;
  if (plain && fs::is_directory(snapshot, ignored)) return snapshot;
  throw FileError(
      fmt::format("[open] {}: no such file or folder, and no such model in the local cache of "
                  "Hugging Face ({}); `hf download {}` fetches it",
                  path.string(), hub_cache().string(), path.string()));
}

}  // namespace regauge::io
