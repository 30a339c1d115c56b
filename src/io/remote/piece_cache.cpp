#include "piece_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <vector>

#include "io/file_lock.h"
#include "io/sha256.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigest = 64;  // hexadecimal digits
constexpr std::size_t kUsualSize = 20'000'000'000;
constexpr double kAfterTrimming = 0.9;  // of the most

std::string variable_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path cache_root() {
  if (const std::string own = variable_text("REGAUGE_CACHE"); !own.empty()) {
    return fs::path(own) / "pieces";
  }
  if (const std::string base = variable_text("XDG_CACHE_HOME"); !base.empty()) {
    return fs::path(base) / "regauge" / "pieces";
  }
  const std::string home = variable_text("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "regauge" / "pieces";
}

std::size_t cache_size() {
  const std::string text = variable_text("REGAUGE_CACHE_SIZE");
  if (text.empty()) return kUsualSize;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  std::size_t factor = 0;
  for (const auto& [name, bytes] : {std::pair<const char*, std::size_t>{"", 1},
                                    {"B", 1},
                                    {"MB", 1'000'000},
                                    {"GB", 1'000'000'000},
                                    {"TB", 1'000'000'000'000}}) {
    if (unit == name) factor = bytes;
  }
  std::size_t size = 0;
  if (error != std::errc() || factor == 0 || __builtin_mul_overflow(number, factor, &size)) {
    throw UsageError(fmt::format(
        "REGAUGE_CACHE_SIZE is '{}'; expected a size like 20GB or 500MB, or 0 for no cache", text));
  }
  return size;
}

std::string digest_of(std::span<const std::byte> piece) {
  Sha256 hash;
  hash.add(piece);
  return hash.finish();
}

struct CachedPiece {
  fs::path path;
  std::size_t bytes;
  fs::file_time_type used;
};

std::vector<CachedPiece> pieces_in(const fs::path& root) {
  std::vector<CachedPiece> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone) || gone) continue;
    const CachedPiece piece{at->path(), static_cast<std::size_t>(at->file_size(gone)),
                            at->last_write_time(gone)};
    if (!gone) found.push_back(piece);
  }
  return found;
}

// What this process knows of the size of the cache; others write there, too, so that it is counted
// anew when it seems full.
std::atomic<std::size_t> cached_bytes{0};
std::once_flag counted_once;

std::size_t count_bytes(const fs::path& root) {
  std::size_t total = 0;
  for (const CachedPiece& piece : pieces_in(root)) total += piece.bytes;
  return total;
}

// Removes what was used longest ago, unless another process is at it.
void trim(const fs::path& root, std::size_t most) {
  const FileLock lock(root.parent_path() / "lock");
  if (!lock.held()) return;
  auto pieces = pieces_in(root);
  std::ranges::sort(pieces, {}, &CachedPiece::used);
  std::size_t total = 0;
  for (const CachedPiece& piece : pieces) total += piece.bytes;
  const auto wanted = static_cast<std::size_t>(static_cast<double>(most) * kAfterTrimming);
  for (const CachedPiece& piece : pieces) {
    if (total <= wanted) break;
    std::error_code kept;
    fs::remove(piece.path, kept);
    if (kept) continue;
    fs::remove(piece.path.parent_path(), kept);  // if it is empty now
    total -= piece.bytes;
  }
  cached_bytes = total;
}

void make_private_folders(const fs::path& folder) {
  std::error_code error;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    if (!fs::exists(at.parent_path(), error)) make_private_folders(at.parent_path());
    if (fs::create_directory(at, error)) {
      fs::permissions(at, fs::perms::owner_all, error);
    }
    return;
  }
}

}  // namespace

PieceCache::PieceCache(const std::string& version) : root_(cache_root()), most_(cache_size()) {
  if (most_ == 0 || root_.empty()) return;
  constexpr std::size_t kShort = 32;  // digits, enough for a name
  folder_ = root_ / digest_of(std::as_bytes(std::span(version))).substr(0, kShort);
}

bool PieceCache::find(std::size_t begin, std::span<std::byte> to) const {
  if (!is_on()) return false;
  const fs::path path = folder_ / std::to_string(begin);
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  std::string digest(kDigest, '\0');
  const bool whole =
      file.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size())) &&
      file.read(digest.data(), kDigest) && file.peek() == std::ifstream::traits_type::eof();
  std::error_code ignored;
  if (!whole || digest != digest_of(to)) {
    fs::remove(path, ignored);
    return false;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return true;
}

bool PieceCache::find_part(std::size_t begin, std::size_t length, std::size_t offset,
                           std::span<std::byte> to) const {
  const fs::path path = folder_ / std::to_string(begin);
  std::error_code gone;
  if (fs::file_size(path, gone) != length + kDigest || gone) return false;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  return file.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()))
      .good();
}

bool PieceCache::keep(std::size_t begin, std::span<const std::byte> piece) const try {
  if (!is_on() || piece.size() + kDigest > most_) return false;
  std::call_once(counted_once, [&] { cached_bytes = count_bytes(root_); });
  make_private_folders(folder_);
  static std::atomic<unsigned> number{0};
  const fs::path path = folder_ / std::to_string(begin);
  const fs::path partial = folder_ / fmt::format(".{}.{}-{}", begin, ::getpid(), ++number);
  {
    std::ofstream file(partial, std::ios::binary);
    const std::string digest = digest_of(piece);
    file.write(reinterpret_cast<const char*>(piece.data()),
               static_cast<std::streamsize>(piece.size()));
    file.write(digest.data(), kDigest);
    file.close();
    std::error_code ignored;
    if (file) fs::permissions(partial, fs::perms::owner_read | fs::perms::owner_write, ignored);
    if (file) fs::rename(partial, path, ignored);
    if (!file || ignored) {
      fs::remove(partial, ignored);
      return false;
    }
  }
  cached_bytes += piece.size() + kDigest;
  if (cached_bytes > most_) trim(root_, most_);
  return true;
} catch (const std::exception&) {
  return false;
}

}  // namespace regauge::io
