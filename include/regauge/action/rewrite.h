#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "regauge/action/plan.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge {

class Executor;

// How matrices may be stored, by name: f32, f16 or bf16. Throws UsageError for others.
DType writable_dtype(std::string_view name);

// From checkpoint to checkpoint through an element, one matrix at a time, or one expert of it.
class Rewrite {
 public:
  struct Target {
    std::string family;
    Format format = Format::safetensors;
    std::optional<DType>
        dtype;  // of all matrices; the source's own otherwise (F32 for quantised ones)
  };
  // Into the source's own family and format.
  static Target same_as(const Model& model);

  // `element` is a member of symmetry_of(source.architecture()); all three must outlive the
  // Rewrite.
  Rewrite(const ParameterSource& source, const Symmetry& symmetry, const Element& element,
          Target target);
  Rewrite(const ParameterSource&& source, const Symmetry& symmetry, const Element& element,
          Target target) = delete;
  Rewrite(const ParameterSource& source, const Symmetry&& symmetry, const Element& element,
          Target target) = delete;
  Rewrite(const ParameterSource& source, const Symmetry& symmetry, const Element&& element,
          Target target) = delete;

  const Plan& plan() const { return plan_; }
  // Stored tensors that change, that are copied byte for byte, and those of the source that the
  // target has no place for.
  const std::vector<std::string>& changed() const { return changed_; }
  const std::vector<std::string>& copied() const { return copied_; }
  const std::vector<std::string>& dropped() const { return dropped_; }
  // Files and folders beside the model that are not copied: other weights, "onnx/".
  std::vector<std::string> left_out() const;
  // Copied tensors that are no parameters but as wide as the stream, which moves.
  const std::vector<std::string>& unadapted() const { return unadapted_; }
  std::int64_t bytes() const;  // to be written
  // An upper estimate of the memory that run() will hold at once with so many jobs, without the
  // program itself.
  std::int64_t peak_memory(int jobs = 1) const;

  // Whole or not at all; `path` must not exist.
  void run(const std::filesystem::path& path, Progress& progress) const;
  // In parts: only these shards, into a new folder that holds nothing else; then all of them, each
  // from where it was written, as run() would have left them.
  std::vector<std::int64_t> shard_bytes() const;
  std::string shard_name(std::int64_t shard) const;
  void run_shards(const std::set<std::int64_t>& shards, const std::filesystem::path& folder,
                  Progress& progress) const;
  void join_shards(const std::filesystem::path& path,
                   const std::vector<std::filesystem::path>& shards) const;
  // The same model in memory. Safetensors only.
  Model run_in_memory(Progress& progress) const;

 private:
  struct Sink;
  // Bytes of a stored tensor, from `offset` on.
  using Write = std::function<void(const std::string& name, std::span<const std::byte> bytes,
                                   std::int64_t offset)>;
  DType unpacked_type(const StoredTensor& tensor) const;
  void write_unpacked(const StoredTensor& tensor, const Write& write, Progress& progress) const;
  // `write` is called by as many threads at a time as the progress has jobs.
  // All tensors, or those of some shards.
  void write_all(const Write& write, Progress& progress,
                 const std::set<std::int64_t>& shards = {}) const;
  CheckpointWriter::Plan files_at(const std::filesystem::path& path) const;
  std::vector<std::string> copied_in(const std::set<std::int64_t>& shards) const;
  std::vector<const LayerPlan*> layers_in(const std::set<std::int64_t>& shards) const;
  std::set<std::string> names_in(const std::set<std::int64_t>& shards) const;
  // Matrices of a layer that lie in one tensor of the target, slice by slice.
  template <class Scalar>
  void move(std::span<const TensorPlan> fused, Executor& executor, Sink& sink,
            Progress& progress) const;
  void write_layer(const LayerPlan& layer, Executor executor, Sink& sink, Progress& progress) const;
  void write_copy(const std::string& name, const Write& write, Progress& progress) const;
  // In how many slices both files have a parameter: the unit that is read, moved and written.
  std::int64_t slices(const std::string& parameter) const;
  // What becomes of one stored tensor of the target.
  struct Decision {
    bool copied = false;       // byte for byte
    DType dtype = DType::f32;  // as stored
    bool in_double = false;    // worked on in double, otherwise in float
  };
  Decision decide(const Layout::Stored& stored) const;
  void plan_files();

  const ParameterSource& source_;
  const Symmetry& symmetry_;
  const Element& element_;
  Target target_;
  Plan plan_;
  Layout layout_;
  CheckpointWriter::Plan files_;
  std::vector<std::string> changed_;
  std::vector<std::string> copied_;
  std::vector<std::string> dropped_;
  std::vector<std::string> unadapted_;
  std::map<std::string, Decision> decisions_;
  bool converts_ = false;  // into another family or format
};

}  // namespace regauge
