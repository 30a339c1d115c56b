#include <algorithm>

#include "regauge/action/rewrite.h"

namespace regauge {

std::vector<std::int64_t> Rewrite::shard_bytes() const {
  std::vector<std::int64_t> sizes(std::max<std::size_t>(files_.files.size(), 1));
  for (const auto& tensor : files_.tensors) {
    sizes[static_cast<std::size_t>(tensor.shard)] += stored_bytes(tensor.dtype, tensor.elements());
  }
  return sizes;
}

std::string Rewrite::shard_name(std::int64_t shard) const {
  return files_.files[static_cast<std::size_t>(shard)];
}

void Rewrite::run_shards(const std::set<std::int64_t>& shards, const std::filesystem::path& folder,
                         Progress& progress) const {
  CheckpointWriter::Plan files = files_;
  files.only = shards;
  CheckpointWriter writer(folder, std::move(files));
  const auto sizes = shard_bytes();
  std::int64_t bytes = 0;
  for (const auto shard : shards) bytes += sizes[static_cast<std::size_t>(shard)];
  progress.start("writing shards", bytes);
  write_all([&](const std::string& name, std::span<const std::byte> piece,
                std::int64_t offset) { writer.write(name, piece, offset); },
            progress, shards);
  writer.finish();
  progress.finish();
}

void Rewrite::join_shards(const std::filesystem::path& path,
                          const std::vector<std::filesystem::path>& shards) const {
  CheckpointWriter::join(path, files_at(path), shards);
}

// Tensors of the target; none stands for all shards.
std::set<std::string> Rewrite::names_in(const std::set<std::int64_t>& shards) const {
  std::set<std::string> names;
  for (const auto& tensor : files_.tensors) {
    if (shards.empty() || shards.contains(tensor.shard)) names.insert(tensor.name);
  }
  return names;
}

std::vector<std::string> Rewrite::copied_in(const std::set<std::int64_t>& shards) const {
  const auto names = names_in(shards);
  std::vector<std::string> copied = copied_;
  std::erase_if(copied, [&](const std::string& name) { return !names.contains(name); });
  return copied;
}

// Layers of which a tensor, or a copy of one, lies there.
std::vector<const LayerPlan*> Rewrite::layers_in(const std::set<std::int64_t>& shards) const {
  auto names = names_in(shards);
  for (const auto& stored : layout_.stored()) {
    if (!stored.copy_of.empty() && names.contains(stored.name)) names.insert(stored.copy_of);
  }
  const auto lies_there = [&](const TensorPlan& tensor) {
    for (std::int64_t slice = 0; slice < layout_.slices(tensor.spec.name); ++slice) {
      if (names.contains(layout_.home(tensor.spec.name, slice).holder.name)) return true;
    }
    return false;
  };
  std::vector<const LayerPlan*> layers;
  for (const auto& layer : plan_.layers) {
    const bool any = std::any_of(layer.matrices.begin(), layer.matrices.end(), lies_there) ||
                     std::any_of(layer.vectors.begin(), layer.vectors.end(), lies_there);
    if (any) layers.push_back(&layer);
  }
  return layers;
}

}  // namespace regauge
