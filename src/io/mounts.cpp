#include "mounts.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#ifdef __linux__
#include <sys/vfs.h>
#endif

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kOverlay = 0x794c7630;

std::uint64_t type_of(const fs::path& path) {
#ifdef __linux__
  struct statfs system = {};
  // The number is 32 bits wide; some machines have it with a sign.
  if (::statfs(path.c_str(), &system) == 0) {
    return static_cast<std::uint64_t>(system.f_type) & 0xffffffffU;
  }
#endif
  return 0;
}

// Spaces and the like stand as "\040" in mountinfo.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    if (text[i] == '\\' && text.size() - i > 3 &&
        std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    text.begin() + static_cast<std::ptrdiff_t>(i) + 4, is_octal)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool is_at_or_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace

bool is_remote_type(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 13> kRemote = {
      0x6969,      // NFS
      0x0bd00bd0,  // Lustre
      0x00c36400,  // Ceph
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0x65735546,  // FUSE, also of virtiofs
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB2
      0x5346414f,  // AFS
      0x6b414653,  // AFS of the kernel
      0x73757245,  // Coda
      0x01021997,  // 9p
  };
  return std::ranges::find(kRemote, type) != kRemote.end();
}

std::vector<fs::path> overlaid_folders(std::string_view mounts, const fs::path& path) {
  std::istringstream lines{std::string(mounts)};
  fs::path innermost;
  std::string options;
  for (std::string line; std::getline(lines, line);) {
    // 36 35 0:33 / /mnt rw,noatime shared:1 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 4) continue;
    const fs::path folder = unescaped(fields[4]);
    if (!is_at_or_below(path, folder)) continue;
    const bool inner = std::distance(folder.begin(), folder.end()) >=
                       std::distance(innermost.begin(), innermost.end());
    if (!inner) continue;
    innermost = folder;
    options = dash[1] == "overlay" ? dash[3] : "";
  }
  std::vector<fs::path> folders;
  std::istringstream list(options);
  for (std::string option; std::getline(list, option, ',');) {
    for (const std::string_view key : {"lowerdir=", "upperdir=", "lowerdir+=", "datadir+="}) {
      if (!option.starts_with(key)) continue;
      std::istringstream names(option.substr(key.size()));
      for (std::string name; std::getline(names, name, ':');) {
        if (!name.empty()) folders.emplace_back(unescaped(name));
      }
    }
  }
  return folders;
}

bool faults_are_requests(const fs::path& path) {
  const std::uint64_t type = type_of(path);
  if (type != kOverlay) return is_remote_type(type);
  std::ifstream file("/proc/self/mountinfo");
  const std::string mounts{std::istreambuf_iterator<char>(file), {}};
  std::error_code unknown;
  const fs::path real = fs::canonical(path, unknown);
  if (unknown) return false;
  const auto below = overlaid_folders(mounts, real);
  return std::ranges::any_of(
      below, [](const fs::path& folder) { return is_remote_type(type_of(folder)); });
}

}  // namespace regauge::io
