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

std::string zip_bytes(const std::vector<std::pair<std::string, std::string>>& files) {
  using std::uint16_t, std::uint32_t;
  const auto sizes = [](const std::pair<std::string, std::string>& file) {
    return raw(static_cast<uint32_t>(file.second.size())) +
           raw(static_cast<uint32_t>(file.second.size())) +
           raw(static_cast<uint16_t>(file.first.size())) + raw<uint16_t>(0);
  };
  const std::string stored(12, '\0');  // flags, method, time, date, CRC
  std::string bytes, directory;
  for (const auto& file : files) {
    directory += "PK\1\2" + raw<uint16_t>(0) + raw<uint16_t>(0) + stored + sizes(file) +
                 std::string(10, '\0') + raw(static_cast<uint32_t>(bytes.size())) + file.first;
    bytes += "PK\3\4" + raw<uint16_t>(0) + stored + sizes(file) + file.first + file.second;
  }
  const auto count = static_cast<uint16_t>(files.size());
  return bytes + directory + "PK\5\6" + raw<uint32_t>(0) + raw(count) + raw(count) +
         raw(static_cast<uint32_t>(directory.size())) + raw(static_cast<uint32_t>(bytes.size())) +
         raw<uint16_t>(0);
}

std::string pickled(std::string_view text) {
  return "X" + raw(static_cast<std::uint32_t>(text.size())) + std::string(text);
}

std::string pickled(const PickledTensor& tensor) {
  const auto number = [](int value) { return "K" + raw(static_cast<unsigned char>(value)); };
  const auto tuple = [&](const std::vector<int>& values) {
    std::string all = "(";
    for (const int value : values) all += number(value);
    return all + "t";
  };
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled("storage") + "c" + tensor.type + "\n" +
         pickled(tensor.key) + pickled("cpu") + number(tensor.elements) + "tQ" +
         number(tensor.first) + tuple(tensor.sizes) + tuple(tensor.strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

std::string torch_bytes(std::string_view pickle, std::string_view data) {
  return zip_bytes({{"x/data.pkl", "\x80\x02" + std::string(pickle) + "."},
                    {"x/byteorder", "little"},
                    {"x/data/0", std::string(data)}});
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
