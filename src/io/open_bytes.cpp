#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "file_bytes.h"
#include "mapping.h"
#include "mounts.h"
#include "regauge/base/error.h"
#include "regauge/io/reading_mode.h"
#include "regular_file.h"
#include "remote/remote_file.h"
#include "remote/url.h"
#include "requested_file.h"

namespace regauge {
namespace {

// -1 before the first choice.
std::atomic<int> chosen_reading_mode{-1};

ReadingMode reading_mode_now() {
  const int chosen = chosen_reading_mode;
  if (chosen >= 0) return static_cast<ReadingMode>(chosen);
  const char* variable = std::getenv("REGAUGE_IO");
  return variable == nullptr || *variable == '\0' ? ReadingMode::automatic
                                                  : reading_mode_from_name(variable);
}

}  // namespace

void choose_reading_mode(ReadingMode mode) { chosen_reading_mode = static_cast<int>(mode); }

ReadingMode reading_mode_from_name(std::string_view name) {
  if (name == "auto") return ReadingMode::automatic;
  if (name == "mmap") return ReadingMode::mapped;
  if (name == "read") return ReadingMode::requests;
  throw UsageError(fmt::format("way of reading '{}' is not one of auto, mmap, read", name));
}

namespace io {

std::shared_ptr<const FileBytes> open_bytes(const std::filesystem::path& path) {
  if (is_url(path)) return open_remote(path.string());
  const ReadingMode mode = reading_mode_now();
  const bool by_requests = mode == ReadingMode::requests ||
                           (mode == ReadingMode::automatic && faults_are_requests(path));
  if (by_requests) return std::make_shared<const RequestedFile>(local_reader(path));
  return std::make_shared<const MappedFile>(path);
}

bool is_file(const std::filesystem::path& path) {
  if (is_url(path)) return is_remote_file(path.string());
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::string read_text(const std::filesystem::path& path, std::size_t most) {
  if (!is_url(path)) return read_file(path, most);
  const auto file = open_remote(path.string());
  const Bytes bytes = file->all().bytes(0, std::min(most, file->size()));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace io
}  // namespace regauge
