#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "gzip.h"
#include "io/corrupt.h"
#include "request.h"

namespace regauge::lab {
namespace {

namespace fs = std::filesystem;

// Pictures of one size with their classes, picture after picture; of each, the channels one after
// the other, row by row.
struct Pictures {
  std::int64_t channels = 0, rows = 0, columns = 0;
  std::array<float, 3> mean{}, deviation{};  // of the training pixels / 255, by channel
  std::string pixels, labels;
};

class Images final : public Data {
 public:
  Images(Pictures pictures, std::int64_t side) : pictures_(std::move(pictures)), side_(side) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(pictures_.labels.size()); }

  Batch batch(std::span<const std::int64_t> examples) const override {
    const std::int64_t down = pictures_.rows / side_, across = pictures_.columns / side_;
    Batch batch;
    batch.sequences = static_cast<std::int64_t>(examples.size());
    batch.length = down * across;
    batch.vectors.resize(batch.sequences * batch.length, pictures_.channels * side_ * side_);
    std::int64_t row = 0;
    for (const std::int64_t example : examples) {
      batch.targets.push_back(
          static_cast<unsigned char>(pictures_.labels[static_cast<std::size_t>(example)]));
      for (std::int64_t y = 0; y < pictures_.rows; y += side_) {
        for (std::int64_t x = 0; x < pictures_.columns; x += side_) {
          cut_patch(example, y, x, batch.vectors.data() + row++ * batch.vectors.cols());
        }
      }
    }
    return batch;
  }

 private:
  void cut_patch(std::int64_t example, std::int64_t y, std::int64_t x, float* patch) const {
    for (std::int64_t c = 0; c < pictures_.channels; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      for (std::int64_t i = 0; i < side_; ++i) {
        const std::int64_t line = (example * pictures_.channels + c) * pictures_.rows + y + i;
        const char* pixels = pictures_.pixels.data() + line * pictures_.columns + x;
        for (std::int64_t j = 0; j < side_; ++j) {
          const auto value = static_cast<float>(static_cast<unsigned char>(pixels[j])) / 255;
          *patch++ = (value - pictures_.mean[channel]) / pictures_.deviation[channel];
        }
      }
    }
  }

  Pictures pictures_;
  std::int64_t side_;  // of a patch
};

std::unique_ptr<Data> cut(Request request, Pictures pictures) {
  const Architecture& a = request.architecture;
  std::vector<std::int64_t> widths;
  std::int64_t side = 0;
  for (std::int64_t s = 1; s <= std::min(pictures.rows, pictures.columns); ++s) {
    if (pictures.rows % s != 0 || pictures.columns % s != 0) continue;
    widths.push_back(pictures.channels * s * s);
    if (widths.back() == a.input_width) side = s;
  }
  if (side == 0) {
    throw request.refusal(fmt::format(
        "images are {}x{} with {} channel{}; input_width must be that of a square patch that tiles "
        "them, one of {}, this architecture has {}",
        pictures.rows, pictures.columns, pictures.channels, pictures.channels == 1 ? "" : "s",
        fmt::join(widths, ", "), a.input_width));
  }
  const std::int64_t patches = pictures.rows / side * (pictures.columns / side);
  if (request.length != 0 && request.length != patches) {
    throw request.refusal(fmt::format("patches of {}x{} give {} positions; the length cannot be {}",
                                      side, side, patches, request.length));
  }
  request.length = patches;
  sequence_length(request);
  for (const char label : pictures.labels) {
    if (static_cast<unsigned char>(label) >= a.classes) {
      throw request.refusal(
          fmt::format("there is a class {0}; classes must be above {0}, this architecture has {1}",
                      static_cast<unsigned char>(label), a.classes));
    }
  }
  return std::make_unique<Images>(std::move(pictures), side);
}

// The bytes of an idx file after its header: the magic number 0x800 + dimensions, and these, all
// big-endian. `sizes` takes the dimensions.
std::string read_idx(const Request& request, const std::string& name,
                     std::span<std::uint64_t> sizes) {
  fs::path path = request.path / name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) path += ".gz";
  const std::string where = request.where();
  std::string file = read_file(path, where);
  const std::size_t header = 4 * (1 + sizes.size());
  if (file.size() < header) {
    throw CorruptFile(Corruption::header_too_short,
                      fmt::format("{}: {} has {} bytes and cannot hold its header", where,
                                  path.string(), file.size()));
  }
  const auto number = [&](std::size_t i) {
    std::uint64_t value = 0;
    for (std::size_t j = 4 * i; j < 4 * i + 4; ++j) {
      value = value << 8 | static_cast<unsigned char>(file[j]);
    }
    return value;
  };
  if (number(0) != 0x800 + sizes.size()) {
    throw CorruptFile(
        Corruption::bad_magic,
        fmt::format("{}: {} begins with {:#x}, not with {:#x} (bytes in {} "
                    "dimensions)",
                    where, path.string(), number(0), 0x800 + sizes.size(), sizes.size()));
  }
  std::uint64_t expected = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = number(i + 1);
    if (sizes[i] == 0 || (i > 0 && sizes[i] > 0xffff)) {  // 32 + 2 * 16 bits do not overflow
      throw CorruptFile(Corruption::bad_shape, fmt::format("{}: {}: dimension {} is {}", where,
                                                           path.string(), i, sizes[i]));
    }
    expected *= sizes[i];
  }
  file.erase(0, header);
  if (file.size() != expected) {
    throw CorruptFile(Corruption::size_mismatch,
                      fmt::format("{}: {} describes {} bytes and has {}; was the download cut "
                                  "short?",
                                  where, path.string(), expected, file.size()));
  }
  return file;
}

// The binary batches of a folder whose names begin like this, in order of name; of x and x.gz, x.
std::vector<fs::path> batches(const Request& request, std::string_view prefix) {
  std::map<std::string, fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(request.path, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    const bool packed = path.extension() == ".gz";
    const fs::path plain = packed ? path.stem() : path.filename();
    if (plain.extension() != ".bin" || !plain.string().starts_with(prefix)) continue;
    if (!packed || !found.contains(plain.string())) found[plain.string()] = path;
  }
  if (found.empty()) {
    throw FileError(
        fmt::format("{}: no {}*.bin or {}*.bin.gz; expected the folder of CIFAR-10's "
                    "binary version",
                    request.where(), prefix, prefix));
  }
  std::vector<fs::path> paths;
  for (const auto& [name, path] : found) paths.push_back(path);
  return paths;
}

}  // namespace

std::unique_ptr<Data> open_idx(const Request& request) {
  require(request, Input::vectors, Output::classes);
  Pictures pictures;
  pictures.channels = 1;
  pictures.mean = {0.1307F};
  pictures.deviation = {0.3081F};
  const auto add = [&](const std::string& name) {
    std::array<std::uint64_t, 3> sizes{};
    std::array<std::uint64_t, 1> count{};
    const std::string pixels = read_idx(request, name + "-images-idx3-ubyte", sizes);
    const std::string labels = read_idx(request, name + "-labels-idx1-ubyte", count);
    const auto rows = static_cast<std::int64_t>(sizes[1]);
    const auto columns = static_cast<std::int64_t>(sizes[2]);
    if (count[0] != sizes[0]) {
      throw CorruptFile(Corruption::size_mismatch,
                        fmt::format("{}: {} has {} images and {} labels", request.where(), name,
                                    sizes[0], count[0]));
    }
    if (!pictures.pixels.empty() && (rows != pictures.rows || columns != pictures.columns)) {
      throw CorruptFile(
          Corruption::size_mismatch,
          fmt::format("{}: the images of {} are {}x{}, those of the training part "
                      "{}x{}",
                      request.where(), name, rows, columns, pictures.rows, pictures.columns));
    }
    pictures.rows = rows;
    pictures.columns = columns;
    pictures.pixels += pixels;
    pictures.labels += labels;
  };
  if (request.split != Split::test) add("train");
  if (request.split != Split::train) add("t10k");
  return cut(request, std::move(pictures));
}

std::unique_ptr<Data> open_cifar(const Request& request) {
  require(request, Input::vectors, Output::classes);
  Pictures pictures;
  pictures.channels = 3;
  pictures.rows = pictures.columns = 32;
  pictures.mean = {0.4914F, 0.4822F, 0.4465F};
  pictures.deviation = {0.2470F, 0.2435F, 0.2616F};
  constexpr std::size_t kPixels = 3 * 32 * 32;
  const auto add = [&](std::string_view prefix) {
    for (const fs::path& path : batches(request, prefix)) {
      const std::string file = read_file(path, request.where());
      if (file.empty() || file.size() % (1 + kPixels) != 0) {
        throw CorruptFile(Corruption::truncated,
                          fmt::format("{}: the {} bytes of {} are no whole number of records (a "
                                      "label and {} pixels); was the download cut short?",
                                      request.where(), file.size(), path.string(), kPixels));
      }
      for (std::size_t at = 0; at < file.size(); at += 1 + kPixels) {
        pictures.labels += file[at];
        pictures.pixels.append(file, at + 1, kPixels);
      }
    }
  };
  if (request.split != Split::test) add("data_batch");
  if (request.split != Split::train) add("test_batch");
  return cut(request, std::move(pictures));
}

}  // namespace regauge::lab
