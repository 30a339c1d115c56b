#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::testing {

// A new folder, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::filesystem::path fixture(std::string_view name);  // of tests/fixtures/io

void write_bytes(const std::filesystem::path& path, std::string_view bytes);
std::string read_bytes(const std::filesystem::path& path);

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// A safetensors file with this header text, well-formed or not.
std::string safetensors_bytes(std::string_view header, std::string_view data);

// A GGUF string, key-value pair and tensor description.
std::string gguf_string(std::string_view text);
std::string gguf_pair(std::string_view key, std::uint32_t type, std::string_view value);
std::string gguf_tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                        std::uint32_t type, std::uint64_t offset);
// A GGUF file of these parts; the data begin at a multiple of 32.
std::string gguf_bytes(const std::vector<std::string>& pairs,
                       const std::vector<std::string>& tensors, std::string_view data,
                       std::uint32_t version = 3);

// A zip archive of stored files, by name.
std::string zip_bytes(const std::vector<std::pair<std::string, std::string>>& files);
// What torch.save pickles of a text and of a tensor whose numbers are file data/0 of the archive;
// all numbers below 256.
std::string pickled(std::string_view text);
struct PickledTensor {
  std::string type = "torch\nFloatStorage";
  int elements = 4, first = 0;
  std::vector<int> sizes = {2, 2}, strides = {2, 1};
  std::string key = "0";
};
std::string pickled(const PickledTensor& tensor);
// A file of torch.save with this pickle, opcodes between PROTO 2 and STOP, and this data/0.
std::string torch_bytes(std::string_view pickle, std::string_view data);

std::string llama2c_bytes(const std::vector<std::int32_t>& header, std::size_t floats);

std::vector<double> values_of(const Checkpoint& checkpoint, std::string_view name);
StoredTensor planned(std::string name, DType dtype, std::vector<std::int64_t> shape,
                     std::int64_t shard = 0);

}  // namespace regauge::testing
