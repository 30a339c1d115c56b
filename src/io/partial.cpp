#include "partial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "json.h"
#include "regauge/base/error.h"
#include "regular_file.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLeft = 1000;

[[noreturn]] void fail_to_write(const fs::path& path, const char* what, int error) {
  throw FileError(fmt::format("[write] {}: {}: {}", path.string(), what, std::strerror(error)));
}

[[noreturn]] void refuse_existing(const fs::path& path) {
  throw UsageError(fmt::format(
      "[write] {}: exists already and is not overwritten; remove it or choose another name",
      path.string()));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Fails with EEXIST if the path is there.
bool create(const fs::path& path, bool folder) {
  if (folder) return ::mkdir(path.c_str(), 0777) == 0;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return file >= 0 && ::close(file) == 0;
}

// 0, or an errno; EEXIST if `to` is there.
int rename_to_new(const fs::path& from, const fs::path& to) {
#if defined(RENAME_NOREPLACE)
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
#endif
  if (is_there(to)) return EEXIST;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// Makes a rename in this folder last; failure costs durability only.
void sync_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

// Absolute, and without a slash at its end.
fs::path whole_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  if (error) fail_to_write(path, "cannot be made absolute", error.value());
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

void check_new(const fs::path& path) {
  require_utf8(path, "write");
  const fs::path whole = whole_path(path);
  if (is_there(whole)) refuse_existing(path);
  std::error_code ignored;
  if (!fs::is_directory(whole.parent_path(), ignored)) {
    throw FileError(
        fmt::format("[write] {}: its folder does not exist; make it first", path.string()));
  }
}

PartialPath::PartialPath(const fs::path& target, bool folder) : target_(whole_path(target)) {
  check_new(target_);
  // In a container a process may have the number of one that was killed and left its own behind.
  const std::string name = fmt::format(".{}.partial-{}", target_.filename().string(), ::getpid());
  for (int others = 0; others < kMostLeft; ++others) {
    partial_ = target_.parent_path() / (others == 0 ? name : fmt::format("{}-{}", name, others));
    if (create(partial_, folder)) return;
    if (errno != EEXIST) fail_to_write(target_, "cannot create", errno);
  }
  fail_to_write(partial_, "left by another writer; remove it if that is gone", EEXIST);
}

PartialPath::~PartialPath() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(partial_, ignored);
}

void PartialPath::commit() {
  const int error = rename_to_new(partial_, target_);
  if (error == EEXIST) refuse_existing(target_);
  if (error != 0) fail_to_write(target_, "cannot rename into place", error);
  committed_ = true;
  sync_folder(target_.parent_path());
}

OutputFile::OutputFile(const fs::path& path, std::int64_t size, fs::path shown)
    : shown_(std::move(shown)) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail_to_write(shown_, "cannot create", errno);
  if (::ftruncate(file_, size) != 0) {
    const int error = errno;
    ::close(file_);
    fail_to_write(shown_, "cannot reserve space", error);
  }
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : shown_(std::move(other.shown_)), file_(std::exchange(other.file_, -1)) {}

void OutputFile::write(std::span<const std::byte> bytes, std::int64_t offset) const {
  while (!bytes.empty()) {
    const std::size_t most = std::min(bytes.size(), kMostAtOnce);
    const ssize_t written = ::pwrite(file_, bytes.data(), most, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EFAULT) {
      throw FileError(fmt::format(
          "[write] {}: the bytes to write cannot be read; did the file that they come from become "
          "shorter?",
          shown_.string()));
    }
    if (written <= 0) fail_to_write(shown_, "cannot write", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void OutputFile::close() {
  const bool synced = ::fsync(file_) == 0 || errno == EINVAL;
  const int error = errno;
  const bool closed = ::close(std::exchange(file_, -1)) == 0;
  if (!synced) fail_to_write(shown_, "cannot write", error);
  if (!closed) fail_to_write(shown_, "cannot write", errno);
}

// std::filesystem::copy_file calls a full disk an "Input/output error".
void write_copy(const fs::path& from, const fs::path& to) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  const RegularFile source(from);
  OutputFile target(to, 0, to);
  std::vector<std::byte> piece(std::min(source.size(), kPiece));
  for (std::size_t at = 0; at < source.size(); at += piece.size()) {
    piece.resize(std::min(piece.size(), source.size() - at));
    source.read(at, piece);
    target.write(piece, static_cast<std::int64_t>(at));
  }
  target.close();
  std::error_code ignored;
  fs::permissions(to, fs::status(from, ignored).permissions(), ignored);
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::remove(to, error);
  fs::create_hard_link(from, to, error);
  if (!error) return;
  write_copy(from, to);
}

void write_file(const fs::path& path, const std::string& text, const fs::path& shown) {
  OutputFile file(path, 0, shown);
  file.write(std::as_bytes(std::span(text)), 0);
  file.close();
}

void write_new(const fs::path& path, const std::string& text) {
  PartialPath partial(path, false);
  write_file(partial.path(), text, partial.target());
  partial.commit();
}

}  // namespace regauge::io
