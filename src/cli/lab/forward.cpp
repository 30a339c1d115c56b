#include "regauge/lab/forward.h"

#include <fmt/format.h>

#include "lab_verb.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"
#include "regauge/lab/train.h"

namespace regauge::cli {
namespace {

std::vector<std::int64_t> read_numbers(const Checkpoint& file, const StoredTensor& tensor) {
  if (tensor.dtype != DType::i64) {
    throw UsageError(
        fmt::format("{}: '{}' must be of type I64", file.path().string(), tensor.name));
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.elements()));
  std::memcpy(values.data(), file.bytes(tensor).data(), file.bytes(tensor).size());
  return values;
}

lab::Batch read_batch(const std::string& path, const Architecture& architecture) {
  const Checkpoint file = Checkpoint::open(path);
  for (const auto& tensor : file.tensors()) {
    if (tensor.name != "tokens" && tensor.name != "vectors" && tensor.name != "types" &&
        tensor.name != "source") {
      throw UsageError(fmt::format(
          "{}: '{}' is not read (there is no padding mask: all sequences have one length)", path,
          tensor.name));
    }
  }
  const auto* tokens = file.find("tokens");
  const auto* vectors = file.find("vectors");
  const auto* types = file.find("types");
  const auto* input = tokens != nullptr ? tokens : vectors;
  if (input == nullptr || input->shape.size() != (input == tokens ? 2u : 3u)) {
    throw UsageError(fmt::format(
        "{}: expected 'tokens' [sequences, length] or 'vectors' [sequences, length, width]", path));
  }
  lab::Batch batch;
  batch.sequences = input->shape[0];
  batch.length = input->shape[1];
  if (tokens != nullptr) batch.tokens = read_numbers(file, *tokens);
  if (vectors != nullptr) {
    if (vectors->shape.size() != 3 || vectors->shape[0] != batch.sequences) {
      throw UsageError(fmt::format("{}: expected 'vectors' [sequences, length, width]", path));
    }
    batch.vectors.resize(batch.sequences * vectors->shape[1], vectors->shape[2]);
    decode<float>(vectors->dtype, file.bytes(*vectors),
                  {batch.vectors.data(), static_cast<std::size_t>(batch.vectors.size())});
    if (architecture.encodes_vectors()) batch.source_length = vectors->shape[1];
  }
  if (types != nullptr) batch.types = read_numbers(file, *types);
  if (const auto* source = file.find("source")) {
    if (source->shape.size() != 2 || source->shape[0] != batch.sequences) {
      throw UsageError(fmt::format("{}: expected 'source' [sequences, length]", path));
    }
    batch.source_length = source->shape[1];
    batch.source = read_numbers(file, *source);
  }
  return batch;
}

template <class Scalar>
void run(const Model& model, const lab::Batch& batch, const std::string& output, bool with_taps) {
  Taps<Scalar> results;
  const auto parameters = read_parameters<Scalar>(model);
  const Matrix<Scalar> outputs =
      lab::forward(model.architecture, parameters, batch, with_taps ? &results : nullptr);
  results["outputs"] = outputs;
  CheckpointWriter::Plan plan;
  const DType dtype = sizeof(Scalar) == sizeof(float) ? DType::f32 : DType::f64;
  for (const auto& [name, value] : results) {
    plan.tensors.push_back(
        {.name = name,
         .dtype = dtype,
         .shape = {batch.sequences, value.rows() / batch.sequences, value.cols()}});
  }
  CheckpointWriter writer(output, std::move(plan));
  for (const auto& [name, value] : results) {
    writer.write(name,
                 std::as_bytes(std::span(value.data(), static_cast<std::size_t>(value.size()))));
  }
  writer.finish();
}

}  // namespace

void add_forward(CLI::App& lab, int& exit_code) {
  struct Options {
    std::string model, input, output;
    int threads = 0;
    bool in_double = false, taps = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      lab.add_subcommand("forward", "Run a model on given inputs and keep the outputs");
  verb->add_option("MODEL", options->model, "folder or file")->required();
  verb->add_option(
          "--input", options->input,
          "safetensors with 'tokens' [sequences, length] (I64), 'types' likewise, or "
          "'vectors' [sequences, length, width], or both, and the token -1 where a vector "
          "stands; 'source' [sequences, length] is what an encoder reads, or, where it reads "
          "vectors, 'vectors'")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "safetensors with 'outputs' [sequences, positions, size]")
      ->required();
  verb->add_flag("--taps", options->taps,
                 "keep what is computed on the way, too: the inputs of norms, the heads' mixtures, "
                 "the hidden units");
  verb->add_flag("--double", options->in_double, "in double precision");
  declare_threads(*verb, options->threads);
  verb->callback([options, &exit_code] {
    lab::set_threads(options->threads);
    const Model model = Model::open(options->model);
    const lab::Batch batch = read_batch(options->input, model.architecture);
    const auto go = options->in_double ? run<double> : run<float>;
    go(model, batch, options->output, options->taps);
    exit_code = 0;
  });
}

}  // namespace regauge::cli
