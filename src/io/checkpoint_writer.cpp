#include "regauge/io/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <unordered_map>

#include "coverage.h"
#include "describe.h"
#include "file_bytes.h"
#include "llama2c.h"
#include "partial.h"
#include "regauge/base/error.h"
#include "writer_plan.h"

namespace regauge {

namespace fs = std::filesystem;

struct CheckpointWriter::State {
  State(const fs::path& path, Plan given);
  void create_files();
  void write_rotary_tables() const;

  Plan plan;
  bool folder;
  io::PartialPath partial;
  std::map<std::int64_t, io::OutputFile> files;  // by shard
  std::unordered_map<std::string, std::size_t> index;
  std::mutex mutex;  // of coverage
  std::vector<io::Coverage> coverage;
  bool finished = false;
};

CheckpointWriter::State::State(const fs::path& path, Plan given)
    : plan(std::move(given)),
      folder(io::is_folder(plan, path)),
      partial(path, folder || !plan.only.empty()) {
  io::check_plan(plan, folder);
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) index.emplace(plan.tensors[i].name, i);
  coverage.resize(plan.tensors.size());
  create_files();
}

void CheckpointWriter::State::create_files() {
  for (std::int64_t i = 0; i < std::ssize(plan.files); ++i) {
    const std::string head = io::lay_out_shard(plan, i, folder);
    if (!plan.only.empty() && !plan.only.contains(i)) continue;
    const std::string& name = plan.files[static_cast<std::size_t>(i)];
    const auto size = io::shard_bytes(plan, i, head.size());
    const bool inside = folder || !plan.only.empty();
    const auto file = files.emplace(
        i, inside ? io::OutputFile(partial.path() / name, size, partial.target() / name)
                  : io::OutputFile(partial.path(), size, partial.target()));
    file.first->second.write(std::as_bytes(std::span(head)), 0);
  }
  if (plan.format == Format::llama2c) write_rotary_tables();
}

// Those that the plan leaves out.
void CheckpointWriter::State::write_rotary_tables() const {
  const io::Llama2cHeader header = io::llama2c_header(plan.config);
  for (const StoredTensor& tensor : io::llama2c_tensors(header)) {
    if (index.contains(tensor.name)) continue;
    files.at(0).write(io::llama2c_rotary_table(header, tensor.name == "freq_cis_imag"),
                      tensor.offset);
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
  if (plan.only.empty()) {
    check_path(path, plan.format);
  } else {
    io::check_new(path);
  }
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
  const auto file = state_->files.find(tensor.shard);
  if (file == state_->files.end()) return;
  file->second.write(bytes, tensor.offset + offset);
  const std::lock_guard lock(state_->mutex);
  state_->coverage[found->second].add(offset, offset + length);
}

void CheckpointWriter::finish() {
  State& state = *state_;
  if (state.finished) throw UsageError("[write] finished already");
  std::string missing;
  for (std::size_t i = 0; i < state.plan.tensors.size(); ++i) {
    const StoredTensor& tensor = state.plan.tensors[i];
    if (!state.files.contains(tensor.shard)) continue;
    const std::int64_t gap = state.coverage[i].first_gap(tensor.bytes);
    if (gap < tensor.bytes) {
      missing += fmt::format("\n  tensor '{}': byte {} of {}", tensor.name, gap, tensor.bytes);
    }
  }
  if (!missing.empty()) throw UsageError("[write] never written:" + missing);

  for (auto& [shard, file] : state.files) file.close();
  if (state.folder && state.plan.only.empty()) io::write_beside_shards(state.plan, state.partial);
  state.partial.commit();
  state.finished = true;
}

void CheckpointWriter::join(const fs::path& path, Plan plan, const std::vector<fs::path>& shards) {
  check_path(path, plan.format);
  const bool folder = io::is_folder(plan, path);
  io::check_plan(plan, folder);
  if (shards.size() != plan.files.size()) {
    throw UsageError(fmt::format("[write] {}: {} shards where {} were expected", path.string(),
                                 shards.size(), plan.files.size()));
  }
  io::PartialPath partial(path, folder);
  for (std::int64_t i = 0; i < std::ssize(plan.files); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const std::string head = io::lay_out_shard(plan, i, folder);
    const auto size = static_cast<std::uintmax_t>(io::shard_bytes(plan, i, head.size()));
    std::error_code error;
    if (fs::file_size(shards[place], error) != size ||
        io::read_text(shards[place], head.size()) != head) {
      throw UsageError(fmt::format("[write] {} is not shard {} of {} of {}; make its part again",
                                   shards[place].string(), i + 1, plan.files.size(),
                                   path.string()));
    }
    io::link_or_copy(shards[place], folder ? partial.path() / plan.files[place] : partial.path());
  }
  if (folder) io::write_beside_shards(plan, partial);
  partial.commit();
}

}  // namespace regauge
