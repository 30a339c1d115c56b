#include "regauge/io/checkpoint_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <unordered_map>

#include "companions.h"
#include "coverage.h"
#include "describe.h"
#include "gguf.h"
#include "llama2c.h"
#include "partial.h"
#include "regauge/base/error.h"
#include "safetensors.h"
#include "shard_index.h"

namespace regauge {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

void check_folder(const CheckpointWriter::Plan& plan) {
  if (!plan.config.is_object()) {
    throw UsageError("[write] a folder needs a config; name a .safetensors file to go without");
  }
  const std::set<std::string> distinct(plan.files.begin(), plan.files.end());
  const bool plain = std::all_of(plan.files.begin(), plan.files.end(), io::is_shard_name);
  const bool ambiguous = plan.files.size() > 1 && distinct.contains(io::kSingleFile);
  if (!plain || ambiguous || distinct.size() != plan.files.size()) {
    throw UsageError(
        fmt::format("[write] [{}] are not distinct names of shards", fmt::join(plan.files, ", ")));
  }
}

}  // namespace

struct CheckpointWriter::State {
  explicit State(const fs::path& path, Plan given);
  std::string lay_out(std::int64_t shard);
  void create_files();
  void write_rotary_tables() const;

  Plan plan;
  bool folder;
  std::string config_text;  // of a folder
  io::PartialPath partial;
  std::vector<io::OutputFile> files;
  std::unordered_map<std::string, std::size_t> index;
  std::mutex mutex;  // of coverage
  std::vector<io::Coverage> coverage;
  bool finished = false;
};

CheckpointWriter::State::State(const fs::path& path, Plan given)
    : plan(std::move(given)),
      folder(plan.format == Format::safetensors && path.extension() != ".safetensors"),
      partial(path, folder) {
  if (plan.files.empty() || !folder) plan.files.resize(1, io::kSingleFile);
  if (folder) {
    check_folder(plan);
    if (!plan.companions_from.empty()) io::check_companions(plan.companions_from);
    config_text = json_text(plan.config);
  }
  check_tensors(plan.tensors, plan.files.size());
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) index.emplace(plan.tensors[i].name, i);
  coverage.resize(plan.tensors.size());
  create_files();
}

// The first bytes of a shard; its tensors get their offsets.
std::string CheckpointWriter::State::lay_out(std::int64_t shard) {
  std::vector<StoredTensor*> tensors;
  for (StoredTensor& tensor : plan.tensors) {
    if (tensor.shard == shard) tensors.push_back(&tensor);
  }
  switch (plan.format) {
    case Format::gguf:
      return io::lay_out_gguf(tensors, plan.config);
    case Format::llama2c:
      return io::lay_out_llama2c(tensors, plan.config);
    case Format::safetensors:
      break;
  }
  const auto position = static_cast<std::size_t>(shard);
  if (position < plan.file_metadata.size()) {
    return io::lay_out_safetensors(tensors, plan.file_metadata[position]);
  }
  return io::lay_out_safetensors(tensors, folder ? json{{"format", "pt"}} : json());
}

void CheckpointWriter::State::create_files() {
  std::vector<std::string> heads;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    heads.push_back(lay_out(static_cast<std::int64_t>(i)));
  }
  for (std::size_t i = 0; i < heads.size(); ++i) {
    auto size = static_cast<std::int64_t>(heads[i].size());
    for (const StoredTensor& tensor : plan.tensors) {
      if (tensor.shard == static_cast<std::int64_t>(i)) {
        size = std::max(size, tensor.offset + tensor.bytes);
      }
    }
    files.push_back(folder ? io::OutputFile(partial.path() / plan.files[i], size,
                                            partial.target() / plan.files[i])
                           : io::OutputFile(partial.path(), size, partial.target()));
    files.back().write(std::as_bytes(std::span(heads[i])), 0);
  }
  if (plan.format == Format::llama2c) write_rotary_tables();
}

// Those that the plan leaves out.
void CheckpointWriter::State::write_rotary_tables() const {
  const io::Llama2cHeader header = io::llama2c_header(plan.config);
  for (const StoredTensor& tensor : io::llama2c_tensors(header)) {
    if (index.contains(tensor.name)) continue;
    files[0].write(io::llama2c_rotary_table(header, tensor.name == "freq_cis_imag"), tensor.offset);
  }
}

void CheckpointWriter::check_path(const fs::path& path, Format format) {
  constexpr std::array<std::string_view, 3> kSuffixes = {".safetensors", ".gguf", ".bin"};
  const std::string suffix = path.extension().string();
  const auto right = kSuffixes.at(static_cast<std::size_t>(format));
  const bool known = std::find(kSuffixes.begin(), kSuffixes.end(), suffix) != kSuffixes.end();
  // A llama2.c file is known by its name alone.
  if (suffix != right && (known || format == Format::llama2c)) {
    throw UsageError(
        fmt::format("[write] {}: what is written is {}; let the name of a file end in {}",
                    path.string(), format_name(format), right));
  }
  io::check_new(path);
}

CheckpointWriter::CheckpointWriter(const fs::path& path, Plan plan) {
  check_path(path, plan.format);
  state_ = std::make_unique<State>(path, std::move(plan));
}

CheckpointWriter::~CheckpointWriter() = default;

const std::vector<StoredTensor>& CheckpointWriter::tensors() const { return state_->plan.tensors; }

void CheckpointWriter::write(std::string_view name, std::span<const std::byte> bytes,
                             std::int64_t offset) {
  const auto found = state_->index.find(std::string(name));
  if (found == state_->index.end()) {
    throw UsageError(fmt::format("[write] the plan has no tensor '{}'", name));
  }
  const StoredTensor& tensor = state_->plan.tensors[found->second];
  const auto length = static_cast<std::int64_t>(bytes.size());
  if (state_->finished || offset < 0 || offset > tensor.bytes || length > tensor.bytes - offset) {
    throw UsageError(fmt::format("[write] tensor '{}': {} bytes at {} do not lie in {} ({} bytes)",
                                 name, length, offset, io::describe(tensor.dtype, tensor.shape),
                                 tensor.bytes));
  }
  state_->files[static_cast<std::size_t>(tensor.shard)].write(bytes, tensor.offset + offset);
  const std::lock_guard lock(state_->mutex);
  state_->coverage[found->second].add(offset, offset + length);
}

void CheckpointWriter::finish() {
  State& state = *state_;
  if (state.finished) throw UsageError("[write] finished already");
  std::string missing;
  for (std::size_t i = 0; i < state.plan.tensors.size(); ++i) {
    const StoredTensor& tensor = state.plan.tensors[i];
    const std::int64_t gap = state.coverage[i].first_gap(tensor.bytes);
    if (gap < tensor.bytes) {
      missing += fmt::format("\n  tensor '{}': byte {} of {}", tensor.name, gap, tensor.bytes);
    }
  }
  if (!missing.empty()) throw UsageError("[write] never written:" + missing);

  for (io::OutputFile& file : state.files) file.close();
  if (state.folder) {
    const fs::path& folder = state.partial.path();
    const fs::path& target = state.partial.target();
    io::write_file(folder / "config.json", state.config_text, target / "config.json");
    if (state.plan.files != std::vector<std::string>{io::kSingleFile}) {
      io::write_file(folder / io::kIndexFile,
                     io::shard_index_text(state.plan.tensors, state.plan.files),
                     target / io::kIndexFile);
    }
    if (!state.plan.companions_from.empty()) {
      io::copy_companions(state.plan.companions_from, folder);
    }
  }
  state.partial.commit();
  state.finished = true;
}

}  // namespace regauge
