#include "writer_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "companions.h"
#include "gguf.h"
#include "llama2c.h"
#include "regauge/base/error.h"
#include "safetensors.h"
#include "shard_index.h"

namespace regauge::io {
namespace {

using nlohmann::json;
using Plan = CheckpointWriter::Plan;

std::string json_text(const json& value) try {
  return value.dump(2) + "\n";
} catch (const json::exception&) {
  throw UsageError("[write] the config holds a string that is not UTF-8");
}

void check_tensors(const std::vector<StoredTensor>& tensors, std::size_t shards) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw UsageError(fmt::format("[write] two tensors are called '{}'", tensor.name));
    }
    if (tensor.shard < 0 || static_cast<std::size_t>(tensor.shard) >= shards) {
      throw UsageError(
          fmt::format("[write] tensor '{}': shard {} of {}", tensor.name, tensor.shard, shards));
    }
  }
}

void check_folder(const Plan& plan) {
  if (!plan.config.is_object()) {
    throw UsageError("[write] a folder needs a config; name a .safetensors file to go without");
  }
  const std::set<std::string> distinct(plan.files.begin(), plan.files.end());
  const bool plain = std::all_of(plan.files.begin(), plan.files.end(), is_shard_name);
  const bool ambiguous = plan.files.size() > 1 && distinct.contains(kSingleFile);
  if (!plain || ambiguous || distinct.size() != plan.files.size()) {
    throw UsageError(
        fmt::format("[write] [{}] are not distinct names of shards", fmt::join(plan.files, ", ")));
  }
}

}  // namespace

bool is_folder(const Plan& plan, const std::filesystem::path& path) {
  return plan.format == Format::safetensors && path.extension() != ".safetensors";
}

void check_plan(Plan& plan, bool folder) {
  if (plan.files.empty() || !folder) plan.files.resize(1, kSingleFile);
  if (folder) {
    check_folder(plan);
    if (!plan.companions_from.empty()) check_companions(plan.companions_from);
    json_text(plan.config);
  }
  check_tensors(plan.tensors, plan.files.size());
}

std::string lay_out_shard(Plan& plan, std::int64_t shard, bool folder) {
  std::vector<StoredTensor*> tensors;
  for (StoredTensor& tensor : plan.tensors) {
    if (tensor.shard == shard) tensors.push_back(&tensor);
  }
  switch (plan.format) {
    case Format::gguf:
      return lay_out_gguf(tensors, plan.config);
    case Format::llama2c:
      return lay_out_llama2c(tensors, plan.config);
    case Format::safetensors:
      break;
  }
  const auto position = static_cast<std::size_t>(shard);
  if (position < plan.file_metadata.size()) {
    return lay_out_safetensors(tensors, plan.file_metadata[position]);
  }
  return lay_out_safetensors(tensors, folder ? json{{"format", "pt"}} : json());
}

std::int64_t shard_bytes(const Plan& plan, std::int64_t shard, std::size_t header) {
  auto size = static_cast<std::int64_t>(header);
  for (const StoredTensor& tensor : plan.tensors) {
    if (tensor.shard == shard) size = std::max(size, tensor.offset + tensor.bytes);
  }
  return size;
}

void write_beside_shards(const Plan& plan, const PartialPath& partial) {
  const auto& folder = partial.path();
  const auto& target = partial.target();
  write_file(folder / "config.json", json_text(plan.config), target / "config.json");
  if (plan.files != std::vector<std::string>{kSingleFile}) {
    write_file(folder / kIndexFile, shard_index_text(plan.tensors, plan.files),
               target / kIndexFile);
  }
  if (!plan.companions_from.empty()) copy_companions(plan.companions_from, folder);
}

}  // namespace regauge::io
