#include "distributed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "corrupt.h"
#include "pickle.h"
#include "regauge/base/error.h"
#include "torch_file.h"

namespace regauge::io {
namespace {

using Kind = PickleValue::Kind;
using Sizes = std::vector<std::int64_t>;
using Path = std::vector<std::string>;

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata.";
constexpr std::string_view kStorageInfo = "torch.distributed.checkpoint.filesystem._StorageInfo";
constexpr std::size_t kMostKeysNamed = 8;  // keys in a message

// Reads the few classes of the format.
class MetadataReader {
 public:
  explicit MetadataReader(const std::string& where) : where_(where) {}

  [[noreturn]] void refuse(Corruption cause, const std::string& what) const {
    throw CorruptFile(cause, fmt::format("{}: {}", where_, what));
  }
  // An attribute of an object of a class; null if it has none of that name.
  const PickleValue* attribute(const PickleValue& object, std::string_view name) const {
    const PickleValue* state = object.items.size() == 3 ? object.items[2] : nullptr;
    return state != nullptr && state->is(Kind::dict) ? entry(*state, name) : nullptr;
  }
  const PickleValue& needed(const PickleValue& object, std::string_view name) const {
    const PickleValue* found = attribute(object, name);
    if (found == nullptr) {
      refuse(Corruption::bad_entry,
             fmt::format("an object of {} without {}", object.items[0]->text, name));
    }
    return *found;
  }
  const PickleValue& dict(const PickleValue& object, std::string_view name) const {
    const PickleValue& found = needed(object, name);
    if (!found.is(Kind::dict)) {
      refuse(Corruption::bad_entry,
             fmt::format("{} is {}, not a dict", name, describe(found.kind)));
    }
    return found;
  }
  // torch.Size or a tuple.
  Sizes sizes(const PickleValue& value, std::string_view name) const {
    const PickleValue* tuple = &value;
    if (value.is_object("torch.Size") && value.items[1]->items.size() == 1) {
      tuple = value.items[1]->items[0];
    }
    Sizes result;
    bool sound = tuple->is(Kind::tuple) || tuple->is(Kind::list);
    for (const PickleValue* item : tuple->items) {
      sound = sound && item->is(Kind::integer) && item->integer >= 0;
      result.push_back(item->integer);
    }
    if (!sound) refuse(Corruption::bad_shape, fmt::format("{} is not a list of sizes", name));
    return result;
  }
  std::string text(const PickleValue& object, std::string_view name) const {
    const PickleValue& found = needed(object, name);
    if (!found.is(Kind::text)) {
      refuse(Corruption::bad_entry, fmt::format("{} is no text", name));
    }
    return std::string(found.text);
  }
  std::int64_t natural(const PickleValue& object, std::string_view name) const {
    const PickleValue& found = needed(object, name);
    if (!found.is(Kind::integer) || found.integer < 0) {
      refuse(Corruption::bad_offsets, fmt::format("{} is no size", name));
    }
    return found.integer;
  }

 private:
  static const PickleValue* entry(const PickleValue& dict, std::string_view name) {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      if (dict.items[i]->is(Kind::text) && dict.items[i]->text == name) return dict.items[i + 1];
    }
    return nullptr;
  }

  const std::string& where_;
};

bool is_a(const PickleValue& value, std::string_view name) {
  return value.is(Kind::object) && value.items[0]->text.starts_with(kClasses) &&
         value.items[0]->text.substr(kClasses.size()) == name;
}

// Where each chunk lies, by tensor and offsets.
using Places = std::map<std::pair<std::string_view, Sizes>, DistributedChunk>;

Places read_places(const MetadataReader& reader, const PickleValue& metadata) {
  Places places;
  const PickleValue& storage = reader.dict(metadata, "storage_data");
  for (std::size_t i = 0; i + 1 < storage.items.size(); i += 2) {
    const PickleValue &key = *storage.items[i], &info = *storage.items[i + 1];
    if (!is_a(key, "MetadataIndex") || !info.is_object(kStorageInfo)) {
      reader.refuse(Corruption::bad_entry, "storage_data has an entry of another kind");
    }
    const PickleValue* offset = reader.attribute(key, "offset");
    if (offset == nullptr || offset->is(Kind::none)) continue;  // not of a tensor
    const PickleValue* changed = reader.attribute(info, "transform_descriptors");
    DistributedChunk chunk;
    chunk.offsets = reader.sizes(*offset, "offset");
    chunk.file = reader.text(info, "relative_path");
    chunk.offset = reader.natural(info, "offset");
    chunk.bytes = reader.natural(info, "length");
    const PickleValue& name = reader.needed(key, "fqn");
    if (!name.is(Kind::text)) reader.refuse(Corruption::bad_entry, "fqn is no text");
    if (changed != nullptr && !changed->items.empty()) {
      throw UsageError(fmt::format(
          "[torch] tensor '{}' was transformed when it was saved (compressed?), which is not read; "
          "save it without extensions",
          name.text));
    }
    const bool plain = !chunk.file.empty() && chunk.file.front() != '/' &&
                       chunk.file.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
    if (!plain || chunk.file == "." || chunk.file == "..") {
      reader.refuse(Corruption::bad_shard_name,
                    fmt::format("'{}' is said to be in '{}', which is no file of the folder",
                                name.text, chunk.file));
    }
    auto where = std::pair(name.text, chunk.offsets);
    if (!places.emplace(std::move(where), std::move(chunk)).second) {
      reader.refuse(Corruption::duplicate_key,
                    fmt::format("a piece of '{}' is there twice", name.text));
    }
  }
  return places;
}

DistributedTensor read_tensor(const MetadataReader& reader, std::string_view key,
                              const PickleValue& value, const Places& places) {
  DistributedTensor tensor;
  tensor.shape = reader.sizes(reader.needed(value, "size"), "size");
  const PickleValue& chunks = reader.needed(value, "chunks");
  if (!chunks.is(Kind::list)) reader.refuse(Corruption::bad_entry, "chunks is no list");
  for (const PickleValue* one : chunks.items) {
    if (!is_a(*one, "ChunkStorageMetadata")) {
      reader.refuse(Corruption::bad_entry, "chunks has an entry of another kind");
    }
    const Sizes offsets = reader.sizes(reader.needed(*one, "offsets"), "offsets");
    const auto found = places.find(std::pair(key, offsets));
    if (found == places.end()) {
      reader.refuse(
          Corruption::missing_tensor,
          fmt::format("the piece of '{}' at [{}] is in no file", key, fmt::join(offsets, ", ")));
    }
    DistributedChunk& chunk = tensor.chunks.emplace_back(found->second);
    chunk.sizes = reader.sizes(reader.needed(*one, "sizes"), "sizes");
  }
  return tensor;
}

// The keys that a tensor was found under, from the top of what was saved.
std::map<std::string_view, Path> read_paths(const MetadataReader& reader,
                                            const PickleValue& metadata) {
  std::map<std::string_view, Path> paths;
  const PickleValue* data = reader.attribute(metadata, "planner_data");
  if (data == nullptr || !data->is(Kind::dict)) return paths;
  for (std::size_t i = 0; i + 1 < data->items.size(); i += 2) {
    const PickleValue &key = *data->items[i], &keys = *data->items[i + 1];
    if (!key.is(Kind::text) || !keys.is(Kind::tuple)) continue;
    Path& path = paths[key.text];
    for (const PickleValue* one : keys.items) {
      const bool number = one->is(Kind::integer);
      path.push_back(number ? std::to_string(one->integer) : std::string(one->text));
    }
  }
  return paths;
}

}  // namespace

std::vector<DistributedTensor> parse_distributed(std::span<const std::byte> bytes,
                                                 const std::string& where) {
  const Pickle pickle(bytes, where);
  const MetadataReader reader(where);
  const PickleValue& root = pickle.root();
  const bool megatron =
      root.is_object("megatron.core.dist_checkpointing.strategies.torch.MCoreMetadata");
  if (!is_a(root, "Metadata") && !megatron) {
    reader.refuse(Corruption::bad_entry,
                  "it does not hold torch.distributed.checkpoint's Metadata");
  }
  const Places places = read_places(reader, root);
  const auto paths = read_paths(reader, root);
  const PickleValue& all = reader.dict(root, "state_dict_metadata");

  struct Entry {
    Path path;
    std::string_view key;
    const PickleValue* value;
  };
  std::vector<Entry> entries;
  std::set<std::string_view> keys;
  for (std::size_t i = 0; i + 1 < all.items.size(); i += 2) {
    const PickleValue &key = *all.items[i], &value = *all.items[i + 1];
    if (!key.is(Kind::text)) reader.refuse(Corruption::bad_entry, "a key is no text");
    if (!keys.insert(key.text).second) {
      reader.refuse(Corruption::duplicate_key, fmt::format("'{}' is there twice", key.text));
    }
    if (!is_a(value, "TensorStorageMetadata")) continue;
    const auto path = paths.find(key.text);
    const bool known = path != paths.end() && !path->second.empty();
    entries.push_back({known ? path->second : Path{std::string(key.text)}, key.text, &value});
  }
  // Down to the dict that holds tensors, by the keys that trainers use or by the only one.
  for (;;) {
    const auto at_top = [](const Entry& entry) { return entry.path.size() == 1; };
    if (entries.empty() || std::ranges::any_of(entries, at_top)) {
      std::erase_if(entries, [&](const Entry& entry) { return !at_top(entry); });
      break;
    }
    std::set<std::string> tops, usual;
    for (const Entry& entry : entries) {
      tops.insert(entry.path.front());
      if (std::ranges::find(kStateDictKeys, entry.path.front()) != kStateDictKeys.end()) {
        usual.insert(entry.path.front());
      }
    }
    if (usual.size() != 1 && tops.size() != 1) {
      std::vector<std::string> named(tops.begin(), tops.end());
      named.resize(std::min(named.size(), kMostKeysNamed));
      throw UsageError(fmt::format(
          "{}: the model's tensors were expected at the top or under one of {}; the keys are [{}]",
          where, fmt::join(kStateDictKeys, ", "), fmt::join(named, ", ")));
    }
    const std::string key = usual.size() == 1 ? *usual.begin() : *tops.begin();
    const bool is_model = usual.size() == 1;
    std::erase_if(entries, [&](const Entry& entry) { return entry.path.front() != key; });
    for (Entry& entry : entries) {
      entry.path.erase(entry.path.begin());
      // What lies deeper is named by all its keys.
      if (is_model) entry.path = {fmt::format("{}", fmt::join(entry.path, "."))};
    }
  }
  if (entries.empty()) throw UsageError(fmt::format("{}: no tensors", where));
  std::vector<DistributedTensor> tensors;
  std::set<std::string> names;
  for (const Entry& entry : entries) {
    tensors.push_back(read_tensor(reader, entry.key, *entry.value, places));
    tensors.back().name = entry.path.front();
    if (!names.insert(entry.path.front()).second) {
      reader.refuse(Corruption::duplicate_key,
                    fmt::format("'{}' is there twice", tensors.back().name));
    }
  }
  return tensors;
}

TorchTensor parse_chunk(const ByteRange& file, const DistributedChunk& chunk,
                        const std::string& name) {
  const std::string where = fmt::format("[torch] {}: tensor '{}' at [{}]", chunk.file, name,
                                        fmt::join(chunk.offsets, ", "));
  const auto size = static_cast<std::int64_t>(file.size());
  if (chunk.offset > size || chunk.bytes > size - chunk.offset) {
    throw CorruptFile(Corruption::truncated,
                      fmt::format("{}: {} bytes from {} on do not lie in {}; was the download cut "
                                  "short?",
                                  where, chunk.bytes, chunk.offset, size));
  }
  const ByteRange bytes =
      file.range(static_cast<std::size_t>(chunk.offset), static_cast<std::size_t>(chunk.bytes));
  TorchTensor tensor = parse_torch_tensor(bytes, where);
  if (tensor.shape != chunk.sizes) {
    throw CorruptFile(Corruption::size_mismatch,
                      fmt::format("{}: [{}] was expected, found [{}]", where,
                                  fmt::join(chunk.sizes, ", "), fmt::join(tensor.shape, ", ")));
  }
  tensor.offset += chunk.offset;
  return tensor;
}

}  // namespace regauge::io
