#include "gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <memory>

#include "io/corrupt.h"

namespace regauge::lab {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr std::size_t kChunk = std::size_t{1} << 20;

struct Close {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

std::string read_file(const std::filesystem::path& path, const std::string& where) {
  std::error_code ignored;
  std::unique_ptr<gzFile_s, Close> file;
  if (std::filesystem::is_regular_file(path, ignored)) file.reset(gzopen(path.c_str(), "rb"));
  if (!file) throw FileError(fmt::format("{}: cannot open {}", where, path.string()));
  std::string bytes;
  for (;;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + kChunk);
    const int read = gzread(file.get(), bytes.data() + size, static_cast<unsigned>(kChunk));
    int error = Z_OK;  // a file that ends inside its gzip data is read as far as it goes
    gzerror(file.get(), &error);
    if (read < 0 || error != Z_OK) {
      throw CorruptFile(
          Corruption::truncated,
          fmt::format("{}: {} cannot be read or unpacked; was the download cut short?", where,
                      path.string()));
    }
    bytes.resize(size + static_cast<std::size_t>(read));
    if (read == 0) return bytes;
    if (bytes.size() > kMaxBytes) {
      throw CorruptFile(Corruption::header_too_large,
                        fmt::format("{}: {} unpacks to more than {} bytes; split it", where,
                                    path.string(), kMaxBytes));
    }
  }
}

}  // namespace regauge::lab
