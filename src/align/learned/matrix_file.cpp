#include "matrix_file.h"

#include <fmt/format.h>

#include <cstring>

#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge {

void MatrixFile::save(const std::filesystem::path& path) const {
  CheckpointWriter::Plan plan;
  plan.file_metadata = {nlohmann::json(notes)};
  for (const auto& [name, matrix] : matrices) {
    plan.tensors.push_back(
        {.name = name, .dtype = DType::f64, .shape = {matrix.rows(), matrix.cols()}});
  }
  const std::filesystem::path fresh = path.string() + ".fresh.safetensors";
  std::filesystem::remove(fresh);
  {
    CheckpointWriter writer(fresh, std::move(plan));
    for (const auto& [name, matrix] : matrices) {
      writer.write(
          name, std::as_bytes(std::span(matrix.data(), static_cast<std::size_t>(matrix.size()))));
    }
    writer.finish();
  }
  std::filesystem::rename(fresh, path);
}

MatrixFile MatrixFile::load(const std::filesystem::path& path) {
  const Checkpoint file = Checkpoint::open(path);
  MatrixFile result;
  for (const auto& tensor : file.tensors()) {
    if (tensor.dtype != DType::f64 || tensor.shape.size() != 2) {
      throw UsageError(fmt::format("{}: '{}' is no matrix of F64", path.string(), tensor.name));
    }
    Matrix<double>& matrix = result.matrices[tensor.name];
    matrix.resize(tensor.shape[0], tensor.shape[1]);
    std::memcpy(matrix.data(), file.bytes(tensor).data(), file.bytes(tensor).size());
  }
  if (!file.file_metadata().empty()) {
    result.notes = file.file_metadata().at(0).get<std::map<std::string, std::string>>();
  }
  return result;
}

}  // namespace regauge
