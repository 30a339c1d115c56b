#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "checked.h"
#include "corrupt.h"
#include "describe.h"
#include "gguf.h"
#include "json.h"
#include "packings/unread.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr int kMaxArrayDepth = 8;
// In arrays of metadata, all together: several times what the largest vocabulary has in tokens,
// merges and scores. A value takes 16 bytes in memory, and one in the file.
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 23;
constexpr std::uint64_t kMostCharacters = std::uint64_t{1} << 26;  // of one text
constexpr std::uint64_t kMinPairBytes = 8 + 4 + 1;        // key length, type, smallest value
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;  // name length, dimensions, type, offset

// Reads values front to back and never past the end.
class Cursor {
 public:
  Cursor(ByteRange file, std::string where) : file_(file), where_(std::move(where)) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T)), sizeof(T));
    return value;
  }
  std::string take_string() {
    const auto length = take<std::uint64_t>();
    if (length > file_.size() - position_) cut_short();
    if (length > kMostCharacters) {
      throw CorruptFile(Corruption::header_too_large,
                        fmt::format("{}: a text of {} bytes in the metadata; at most {} are read",
                                    where_, length, kMostCharacters));
    }
    return {reinterpret_cast<const char*>(take_bytes(length)), static_cast<std::size_t>(length)};
  }
  // A count of things that take at least `each` bytes.
  std::uint64_t take_count(std::uint64_t each) {
    const auto count = take<std::uint64_t>();
    if (count > (file_.size() - position_) / each) cut_short();
    return count;
  }
  // The count of an array of values that take at least `each` bytes.
  std::uint64_t take_array_count(std::uint64_t each) {
    const std::uint64_t count = take_count(each);
    values_ += count;
    if (values_ > kMostValues) {
      throw CorruptFile(Corruption::header_too_large,
                        fmt::format("{}: the arrays of metadata hold more than {} values; no model "
                                    "needs as many",
                                    where_, kMostValues));
    }
    return count;
  }
  std::size_t position() const { return position_; }
  const std::string& where() const { return where_; }

 private:
  // Valid until the next are taken.
  const std::byte* take_bytes(std::uint64_t count) {
    if (count > file_.size() - position_) cut_short();
    const auto length = static_cast<std::size_t>(count);
    if (position_ < window_begin_ || position_ + length > window_begin_ + window_.size()) {
      window_begin_ = position_;
      window_ =
          file_.bytes(position_, std::min(std::max(length, kWindow), file_.size() - position_));
    }
    const std::byte* taken = window_.data() + (position_ - window_begin_);
    position_ += length;
    return taken;
  }
  [[noreturn]] void cut_short() const {
    throw CorruptFile(
        Corruption::header_truncated,
        fmt::format("{}: the header goes past the end of the file ({} bytes); was the "
                    "download cut short?",
                    where_, file_.size()));
  }

  static constexpr std::size_t kWindow = std::size_t{1} << 16;
  ByteRange file_;
  Bytes window_;  // what was read last
  std::size_t window_begin_ = 0;
  std::size_t position_ = 0;
  std::uint64_t values_ = 0;  // in arrays
  std::string where_;
};

std::string take_name(Cursor& cursor, const char* what) {
  std::string name = cursor.take_string();
  if (!is_utf8(name)) {
    throw CorruptFile(Corruption::not_utf8,
                      fmt::format("{}: {} is not UTF-8", cursor.where(), what));
  }
  return name;
}

json text_value(std::string text) {
  if (is_utf8(text)) return text;
  return json::binary({text.begin(), text.end()});
}

// The least that a value of this type takes in the file; throws if there is no such type.
std::uint64_t least_bytes(std::uint32_t type, const std::string& where) {
  switch (static_cast<GgufValue>(type)) {
    case GgufValue::u8:
    case GgufValue::i8:
    case GgufValue::boolean:
      return 1;
    case GgufValue::u16:
    case GgufValue::i16:
      return 2;
    case GgufValue::u32:
    case GgufValue::i32:
    case GgufValue::f32:
      return 4;
    case GgufValue::u64:
    case GgufValue::i64:
    case GgufValue::f64:
    case GgufValue::string:
      return 8;
    case GgufValue::array:
      return 12;
  }
  throw CorruptFile(Corruption::unknown_value_type,
                    fmt::format("{}: {} is not a value type of GGUF", where, type));
}

json take_value(Cursor& cursor, std::uint32_t type, int depth);

json take_array(Cursor& cursor, int depth) {
  if (depth >= kMaxArrayDepth) {
    throw CorruptFile(
        Corruption::nested_too_deeply,
        fmt::format("{}: arrays nested more than {} deep", cursor.where(), kMaxArrayDepth));
  }
  const auto type = cursor.take<std::uint32_t>();
  const std::uint64_t count = cursor.take_array_count(least_bytes(type, cursor.where()));
  json::array_t values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(take_value(cursor, type, depth + 1));
  return values;
}

json take_value(Cursor& cursor, std::uint32_t type, int depth) {
  least_bytes(type, cursor.where());
  switch (static_cast<GgufValue>(type)) {
    case GgufValue::u8:
      return cursor.take<std::uint8_t>();
    case GgufValue::i8:
      return cursor.take<std::int8_t>();
    case GgufValue::u16:
      return cursor.take<std::uint16_t>();
    case GgufValue::i16:
      return cursor.take<std::int16_t>();
    case GgufValue::u32:
      return cursor.take<std::uint32_t>();
    case GgufValue::i32:
      return cursor.take<std::int32_t>();
    case GgufValue::f32:
      return cursor.take<float>();
    case GgufValue::boolean:
      return cursor.take<std::uint8_t>() != 0;
    case GgufValue::string:
      return text_value(cursor.take_string());
    case GgufValue::array:
      return take_array(cursor, depth);
    case GgufValue::u64:
      return cursor.take<std::uint64_t>();
    case GgufValue::i64:
      return cursor.take<std::int64_t>();
    case GgufValue::f64:
      return cursor.take<double>();
  }
  return nullptr;
}

// The type, or what one is called that is not read.
struct GgmlType {
  std::optional<DType> dtype;
  std::string name;
};

GgmlType read_type(std::uint32_t number, const std::string& where) {
  constexpr std::uint32_t kNewer = 43, kMost = 1024;  // llama.cpp counts on
  const std::string_view type = ggml_type_name(number);
  if (type.empty() && (number < kNewer || number >= kMost)) {
    throw CorruptFile(Corruption::unknown_dtype,
                      fmt::format("{}: {} is not a tensor type of GGUF", where, number));
  }
  if (type.empty()) return {std::nullopt, fmt::format("number {} of GGUF's types", number)};
  return {dtype_from_name(type), std::string(type)};
}

// The tensor's offset is still relative to the data when this returns.
StoredTensor take_tensor(Cursor& cursor) {
  StoredTensor tensor;
  tensor.name = take_name(cursor, "a tensor's name");
  const std::string where = fmt::format("{}: tensor '{}'", cursor.where(), tensor.name);
  const auto dimensions = cursor.take<std::uint32_t>();
  if (dimensions > kGgufMaxDimensions) {
    throw CorruptFile(Corruption::bad_shape, fmt::format("{}: {} dimensions are more than {}",
                                                         where, dimensions, kGgufMaxDimensions));
  }
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto size = cursor.take<std::uint64_t>();
    // A size of 2^63 or more turns negative here and fails below.
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  const GgmlType type = read_type(cursor.take<std::uint32_t>(), where);
  tensor.dtype = type.dtype.value_or(DType::u8);
  const auto offset = cursor.take<std::uint64_t>();

  const auto elements = element_count(tensor.shape);
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  const bool whole = elements && row % block_elements(tensor.dtype) == 0;
  const auto bytes =
      whole ? product(*elements / block_elements(tensor.dtype), block_bytes(tensor.dtype))
            : std::nullopt;
  if (!bytes) {
    throw CorruptFile(
        Corruption::bad_shape,
        fmt::format("{}: {} overflows or is not made of whole blocks of {} elements", where,
                    describe(tensor.dtype, tensor.shape), block_elements(tensor.dtype)));
  }
  tensor.bytes = *bytes;
  if (offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw CorruptFile(Corruption::bad_offsets,
                      fmt::format("{}: offset {} is past any file", where, offset));
  }
  tensor.offset = static_cast<std::int64_t>(offset);
  if (!type.dtype) {
    UnreadPacking::put_in_place(
        tensor, type.name,
        fmt::format("{}: {} tensors are not read; convert to F16 or Q8_0", where, type.name));
  }
  return tensor;
}

// Of types that are not read, whose size is not known: they reach to the next tensor, of those that
// are sorted by offset, or to the end of the data.
void measure_unread(std::vector<StoredTensor>& tensors, std::int64_t size) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (UnreadPacking::of(tensors[i]) == nullptr) continue;
    const std::int64_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : size;
    tensors[i].bytes = std::max<std::int64_t>(end - tensors[i].offset, 0);
  }
}

std::int64_t read_alignment(const json& config, const std::string& where) {
  const auto found = config.find("general.alignment");
  if (found == config.end()) return kGgufDefaultAlignment;
  const auto value = found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  if (!std::has_single_bit(value) || value > std::numeric_limits<std::uint32_t>::max()) {
    throw CorruptFile(Corruption::bad_alignment,
                      fmt::format("{}: general.alignment is {}, not a power of two", where,
                                  found->dump(-1, ' ', false, json::error_handler_t::replace)));
  }
  return static_cast<std::int64_t>(value);
}

// The tensors, sorted by offset, tile the `size` bytes of data, each beginning at the first
// multiple of the alignment after the one before.
void check_tiling(const std::vector<StoredTensor>& tensors, std::int64_t alignment,
                  std::int64_t size, const std::string& file) {
  std::int64_t end = 0, next = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::string where = fmt::format("{}: tensor '{}'", file, tensor.name);
    if (tensor.offset % alignment != 0) {
      throw CorruptFile(Corruption::bad_offsets,
                        fmt::format("{}: offset {} is not a multiple of the alignment {}", where,
                                    tensor.offset, alignment));
    }
    if (tensor.offset < end) {
      throw CorruptFile(
          Corruption::overlap,
          fmt::format("{}: begins at byte {} of the data, inside the tensor that ends "
                      "at {}",
                      where, tensor.offset, end));
    }
    if (tensor.offset > next) {
      throw CorruptFile(Corruption::hole, fmt::format("{}: bytes [{}, {}) of the data belong to no "
                                                      "tensor",
                                                      where, next, tensor.offset));
    }
    if (tensor.bytes > size - tensor.offset) {
      throw CorruptFile(
          Corruption::truncated,
          fmt::format(
              "{}: {} at byte {} goes past the {} bytes of data; was the download cut short?",
              where, describe(tensor.dtype, tensor.shape), tensor.offset, size));
    }
    end = tensor.offset + tensor.bytes;
    next = (end + alignment - 1) / alignment * alignment;
  }
  if (size > next) {
    throw CorruptFile(Corruption::trailing_bytes,
                      fmt::format("{}: {} bytes follow the last tensor", file, size - next));
  }
}

void check_version(Cursor& cursor, const ByteRange& file) {
  if (file.size() < 24) {
    throw CorruptFile(Corruption::header_too_short,
                      fmt::format("{}: {} bytes cannot hold a GGUF header (24 bytes)",
                                  cursor.where(), file.size()));
  }
  if (std::memcmp(file.bytes(0, kGgufMagic.size()).data(), kGgufMagic.data(), kGgufMagic.size()) !=
      0) {
    throw CorruptFile(Corruption::bad_magic,
                      fmt::format("{}: does not begin with \"GGUF\"", cursor.where()));
  }
  cursor.take<std::uint32_t>();
  const auto version = cursor.take<std::uint32_t>();
  if (version != 2 && version != 3) {
    throw CorruptFile(
        Corruption::unsupported_version,
        fmt::format("{}: version {}{}; little-endian versions 2 and 3 are read", cursor.where(),
                    version, (version & 0xffffu) == 0 ? " (big-endian?)" : ""));
  }
}

}  // namespace

GgufContents parse_gguf(const ByteRange& file, const std::string& name) {
  Cursor cursor(file, fmt::format("[gguf] {}", name));
  check_version(cursor, file);
  const auto tensors = cursor.take_count(kMinTensorBytes);
  const auto pairs = cursor.take_count(kMinPairBytes);

  GgufContents contents;
  contents.config = json::object();
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const std::string key = take_name(cursor, "a key");
    const auto type = cursor.take<std::uint32_t>();
    if (!contents.config.emplace(key, take_value(cursor, type, 0)).second) {
      throw CorruptFile(Corruption::duplicate_key,
                        fmt::format("{}: the key '{}' is there twice", cursor.where(), key));
    }
  }
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    contents.tensors.push_back(take_tensor(cursor));
    if (!names.insert(contents.tensors.back().name).second) {
      throw CorruptFile(Corruption::duplicate_key,
                        fmt::format("{}: the tensor '{}' is there twice", cursor.where(),
                                    contents.tensors.back().name));
    }
  }
  const std::int64_t alignment = read_alignment(contents.config, cursor.where());
  const auto header = static_cast<std::int64_t>(cursor.position());
  const auto size = static_cast<std::int64_t>(file.size());
  const std::int64_t start = std::min(size, (header + alignment - 1) / alignment * alignment);
  std::sort(contents.tensors.begin(), contents.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
            });
  measure_unread(contents.tensors, size - start);
  check_tiling(contents.tensors, alignment, size - start, cursor.where());
  for (StoredTensor& tensor : contents.tensors) tensor.offset += start;
  return contents;
}

}  // namespace regauge::io
