#include "files.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace regauge::testing {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "regauge-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path fixture(std::string_view name) { return fs::path(REGAUGE_FIXTURES) / "io" / name; }

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return raw<std::uint64_t>(header.size()) + std::string(header) + std::string(data);
}

std::string gguf_string(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

std::string gguf_pair(std::string_view key, std::uint32_t type, std::string_view value) {
  return gguf_string(key) + raw(type) + std::string(value);
}

std::string gguf_tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                        std::uint32_t type, std::uint64_t offset) {
  std::string bytes = gguf_string(name) + raw(static_cast<std::uint32_t>(dimensions.size()));
  for (const std::uint64_t size : dimensions) bytes += raw(size);
  return bytes + raw(type) + raw(offset);
}

std::string gguf_bytes(const std::vector<std::string>& pairs,
                       const std::vector<std::string>& tensors, std::string_view data,
                       std::uint32_t version) {
  std::string bytes =
      "GGUF" + raw(version) + raw<std::uint64_t>(tensors.size()) + raw<std::uint64_t>(pairs.size());
  for (const std::string& pair : pairs) bytes += pair;
  for (const std::string& tensor : tensors) bytes += tensor;
  bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
  return bytes + std::string(data);
}

std::string llama2c_bytes(const std::vector<std::int32_t>& header, std::size_t floats) {
  std::string bytes;
  for (const std::int32_t number : header) bytes += raw(number);
  for (std::size_t i = 0; i < floats; ++i) bytes += raw(static_cast<float>(i));
  return bytes;
}

std::vector<double> values_of(const Checkpoint& checkpoint, std::string_view name) {
  const StoredTensor& tensor = checkpoint.at(name);
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  decode<double>(tensor.dtype, checkpoint.bytes(tensor), values);
  return values;
}

StoredTensor planned(std::string name, DType dtype, std::vector<std::int64_t> shape,
                     std::int64_t shard) {
  StoredTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.shard = shard;
  return tensor;
}

}  // namespace regauge::testing
