#include "file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "regauge/base/error.h"

namespace regauge {

FileLock::FileLock(const std::filesystem::path& path)
    : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
  if (file_ < 0) throw FileError(fmt::format("{}: cannot be written", path.string()));
  held_ = flock(file_, LOCK_EX | LOCK_NB) == 0;
  if (!held_ && errno != EWOULDBLOCK) {
    const int error = errno;
    close(file_);
    throw FileError(
        fmt::format("{}: cannot be locked ({}); choose a folder on a file system that has flock",
                    path.string(), std::strerror(error)));
  }
}

FileLock::~FileLock() { close(file_); }

}  // namespace regauge
