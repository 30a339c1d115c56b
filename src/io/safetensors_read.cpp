#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "checked.h"
#include "corrupt.h"
#include "describe.h"
#include "json.h"
#include "packings/unread.h"
#include "safetensors.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

// What a type may be called that is newer than this program, or that it does not read (F4, C64).
bool is_type_name(std::string_view name) {
  constexpr std::size_t kLongest = 32;
  return !name.empty() && name.size() <= kLongest && std::isupper(name.front()) != 0 &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
         });
}

// Of the read-only types those that the package knows.
bool is_in_safetensors(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e8m0;
}

// Begins a message; put together only where there is one.
struct Place {
  const std::string& file;
  const std::string& tensor;
};
std::string to_text(const Place& where) {
  return fmt::format("[safetensors] {}: tensor '{}'", where.file, where.tensor);
}

// A count, size or offset: an integer of the JSON text in [0, 2^63).
std::optional<std::int64_t> natural(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

// Nothing for a type that is not read.
std::optional<DType> read_dtype(const json& value, const Place& where) {
  if (!value.is_string()) {
    throw CorruptFile(Corruption::bad_entry,
                      fmt::format("{}: dtype is not a string", to_text(where)));
  }
  const auto& name = value.get_ref<const std::string&>();
  const auto dtype = dtype_from_name(name);
  const bool known = dtype && (!is_quantised(*dtype) || is_in_safetensors(*dtype));
  if (!known && (dtype || !is_type_name(name))) {
    throw CorruptFile(Corruption::unknown_dtype,
                      fmt::format("{}: '{}' is not a type of safetensors", to_text(where), name));
  }
  return dtype;
}

std::vector<std::int64_t> read_shape(const json& value, const Place& where) {
  const auto refuse = [&] {
    return CorruptFile(Corruption::bad_shape, fmt::format("{}: shape {} is not a list of sizes",
                                                          to_text(where), value.dump()));
  };
  if (!value.is_array()) throw refuse();
  std::vector<std::int64_t> shape;
  for (const json& size : value) {
    const auto number = natural(size);
    if (!number) throw refuse();
    shape.push_back(*number);
  }
  return shape;
}

// Offsets are still relative to the data when this returns.
StoredTensor read_entry(const std::string& name, const json& entry, const std::string& file) {
  const Place where{file, name};
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    throw CorruptFile(
        Corruption::bad_entry,
        fmt::format("{}: dtype, shape and data_offsets were expected", to_text(where)));
  }
  StoredTensor tensor;
  tensor.name = name;
  const auto dtype = read_dtype(entry["dtype"], where);
  tensor.shape = read_shape(entry["shape"], where);
  const json& offsets = entry["data_offsets"];
  const bool pair = offsets.is_array() && offsets.size() == 2;
  const auto first = pair ? natural(offsets[0]) : std::nullopt;
  const auto last = pair ? natural(offsets[1]) : std::nullopt;
  if (!first || !last || *last < *first) {
    throw CorruptFile(Corruption::bad_offsets, fmt::format("{}: data_offsets {} are no interval",
                                                           to_text(where), offsets.dump()));
  }
  tensor.offset = *first;
  tensor.bytes = *last - *first;
  if (dtype) {
    tensor.dtype = *dtype;
  } else {
    const std::string type = entry["dtype"].get<std::string>();
    UnreadPacking::put_in_place(
        tensor, type,
        fmt::format("{}: {} tensors are not read; convert to BF16", to_text(where), type));
  }
  return tensor;
}

json read_metadata(const json& header, const std::string& file) {
  const auto found = header.find("__metadata__");
  if (found == header.end() || found->is_null()) return json::object();
  const auto is_string = [](const json& value) { return value.is_string(); };
  if (!found->is_object() || !std::all_of(found->begin(), found->end(), is_string)) {
    throw CorruptFile(
        Corruption::bad_metadata,
        fmt::format("[safetensors] {}: __metadata__ is not an object of strings", file));
  }
  return *found;
}

void check_size(const StoredTensor& tensor, const Place& where) {
  const auto elements = element_count(tensor.shape);
  const auto bytes = elements ? product(*elements, block_bytes(tensor.dtype)) : std::nullopt;
  const auto what = [&] { return describe(tensor.dtype, tensor.shape); };
  if (bytes && UnreadPacking::of(tensor) != nullptr) return;  // whose size is as it is said
  if (!bytes) {
    throw CorruptFile(Corruption::bad_shape,
                      fmt::format("{}: the size of {} overflows", to_text(where), what()));
  }
  if (*bytes != tensor.bytes) {
    throw CorruptFile(
        Corruption::size_mismatch,
        fmt::format("{}: bytes [{}, {}) do not hold {} ({} bytes); was the download cut short?",
                    to_text(where), tensor.offset, tensor.offset + tensor.bytes, what(), *bytes));
  }
}

// The tensors, sorted by offset, tile the data with no hole and no overlap. Returns the data's
// length.
std::int64_t check_tiling(const std::vector<StoredTensor>& tensors, const std::string& file) {
  std::int64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const Place where{file, tensor.name};
    if (tensor.offset < end) {
      throw CorruptFile(Corruption::overlap,
                        fmt::format("{}: begins at byte {}, inside the tensor that ends at {}",
                                    to_text(where), tensor.offset, end));
    }
    if (tensor.offset > end) {
      throw CorruptFile(Corruption::hole, fmt::format("{}: bytes [{}, {}) belong to no tensor",
                                                      to_text(where), end, tensor.offset));
    }
    check_size(tensor, where);
    end = tensor.offset + tensor.bytes;
  }
  return end;
}

Bytes header_of(const ByteRange& file, const std::string& name) {
  if (file.size() < kLengthBytes) {
    throw CorruptFile(
        Corruption::header_too_short,
        fmt::format("[safetensors] {}: {} bytes cannot hold a header length (8 bytes)", name,
                    file.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes(0, kLengthBytes).data(), kLengthBytes);
  if (length > kMaxHeader) {
    throw CorruptFile(
        Corruption::header_too_large,
        fmt::format("[safetensors] {}: a header of {} bytes is more than {}; is this a safetensors "
                    "file?",
                    name, length, kMaxHeader));
  }
  if (length > file.size() - kLengthBytes) {
    throw CorruptFile(
        Corruption::header_truncated,
        fmt::format("[safetensors] {}: a header of {} bytes does not fit in {} bytes; was the "
                    "download cut short?",
                    name, length, file.size()));
  }
  return file.bytes(kLengthBytes, static_cast<std::size_t>(length));
}

}  // namespace

SafetensorsContents parse_safetensors(const ByteRange& file, const std::string& name) {
  const std::string where = fmt::format("[safetensors] {}", name);
  const Bytes bytes = header_of(file, name);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const json header = parse_json_object(text, where);

  SafetensorsContents contents;
  contents.metadata = read_metadata(header, name);
  for (const auto& [key, entry] : header.items()) {
    if (key != "__metadata__") contents.tensors.push_back(read_entry(key, entry, name));
  }
  std::sort(contents.tensors.begin(), contents.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
            });
  const std::int64_t data = check_tiling(contents.tensors, name);
  const auto start = static_cast<std::int64_t>(kLengthBytes + text.size());
  const auto present = static_cast<std::int64_t>(file.size()) - start;
  if (data > present) {
    throw CorruptFile(Corruption::truncated,
                      fmt::format("{}: the tensors take {} bytes, but only {} follow the header; "
                                  "was the download cut short?",
                                  where, data, present));
  }
  if (data < present) {
    throw CorruptFile(Corruption::trailing_bytes,
                      fmt::format("{}: {} bytes follow the last tensor", where, present - data));
  }
  for (StoredTensor& tensor : contents.tensors) tensor.offset += start;
  return contents;
}

}  // namespace regauge::io
