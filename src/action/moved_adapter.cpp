#include "regauge/action/moved_adapter.h"

#include <Eigen/QR>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "io/adapter.h"
#include "io/packings/low_rank.h"
#include "io/partial.h"
#include "io/safetensors.h"
#include "regauge/action/rewrite.h"
#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

using io::LowRank;

const LowRank* low_rank_of(const StoredTensor& tensor) {
  return dynamic_cast<const LowRank*>(tensor.packing.get());
}

// The tensors of the adapter's new file, by their names.
using Written = std::map<std::string, Matrix<double>>;

// outputs x inputs = scale B A, with factors of one size.
void factorise(const StoredTensor& tensor, const LowRank::Form& form, const Matrix<double>& added,
               Written& written) {
  Random random(0, "adapter/" + tensor.name);
  Matrix<double> seen(added.cols(), form.rank);
  for (Eigen::Index i = 0; i < seen.size(); ++i) seen.data()[i] = random.normal();
  const Eigen::MatrixXd product = added * seen;
  const Eigen::MatrixXd basis = Eigen::HouseholderQR<Eigen::MatrixXd>(product).householderQ() *
                                Eigen::MatrixXd::Identity(product.rows(), product.cols());
  const Matrix<double> a = basis.transpose() * added / form.scale;
  if (a.isZero(0)) {
    throw UsageError(fmt::format(
        "[adapter] the adapter adds nothing to '{}' yet (one of its factors is zero); make a new "
        "one for the moved base",
        tensor.name));
  }
  const double size = std::sqrt(a.norm() / basis.norm());
  written[tensor.parts[1].name] = a / size;
  written[tensor.parts[2].name] = basis * size;
}

Matrix<double> numbers_of(const Model& model, const std::string& name, std::int64_t rows) {
  const StoredTensor& tensor = model.checkpoint.at(name);
  Matrix<double> value(rows, tensor.elements() / rows);
  model.checkpoint.numbers(tensor).decode<double>(
      std::span(value.data(), static_cast<std::size_t>(value.size())));
  return value;
}

void write_folder(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                  const Written& written, const nlohmann::json& settings) {
  io::PartialPath partial(path, true);
  std::vector<StoredTensor*> planned;
  for (StoredTensor& tensor : tensors) {
    if (tensor.dtype != DType::f64) tensor.dtype = DType::f32;
    planned.push_back(&tensor);
  }
  const std::string header = io::lay_out_safetensors(planned, {{"format", "pt"}});
  const auto file = partial.path() / "adapter_model.safetensors";
  std::int64_t size = static_cast<std::int64_t>(header.size());
  for (const StoredTensor& tensor : tensors) size = std::max(size, tensor.offset + tensor.bytes);
  io::OutputFile output(file, size, path / "adapter_model.safetensors");
  output.write(std::as_bytes(std::span(header)), 0);
  for (const StoredTensor& tensor : tensors) {
    const Matrix<double>& value = written.at(tensor.name);
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(stored_bytes(tensor.dtype, value.size())));
    encode<double>(tensor.dtype, std::span(value.data(), static_cast<std::size_t>(value.size())),
                   bytes);
    output.write(bytes, tensor.offset);
  }
  output.close();
  io::write_file(partial.path() / io::kAdapterConfig, settings.dump(2) + "\n",
                 path / io::kAdapterConfig);
  partial.commit();
}

}  // namespace

void write_moved_adapter(const Model& both, const std::filesystem::path& adapter,
                         const Symmetry& symmetry, const Element& element,
                         const std::filesystem::path& path, Progress& progress) {
  const io::AdapterFiles files = io::open_adapter(adapter);
  Model added = both;
  added.checkpoint =
      both.checkpoint.repacked([](const StoredTensor& tensor) -> std::shared_ptr<const Packing> {
        const LowRank* packing = low_rank_of(tensor);
        if (packing == nullptr) return nullptr;
        LowRank::Form form = packing->form();
        if (form.experts > 1 || form.magnitudes) {
          throw UsageError(fmt::format(
              "[adapter] '{}' has {}, which is not carried along; merge the adapter, or make a new "
              "one for the moved base",
              tensor.name,
              form.magnitudes ? "the magnitudes of a DoRA"
                              : "one pair of factors for all experts"));
        }
        form.alone = true;
        return packing->with(form);
      });
  const ParameterSource source(added, symmetry.architecture);
  Rewrite::Target target = Rewrite::same_as(both);
  target.dtype = DType::f64;  // what is added keeps its rank
  const Model moved = Rewrite(source, symmetry, element, target).run_in_memory(progress);
  Written written;
  for (const StoredTensor& tensor : added.checkpoint.tensors()) {
    const LowRank* packing = low_rank_of(tensor);
    if (packing == nullptr) continue;
    const LowRank::Form& form = packing->form();
    const Matrix<double> value = numbers_of(moved, tensor.name, form.rows);
    if (tensor.parts.size() == 2) {  // a bias
      written[tensor.parts[1].name] = value / form.scale;
    } else {
      factorise(tensor, form, form.output_is_row ? value : Matrix<double>(value.transpose()),
                written);
    }
  }
  for (const StoredTensor& tensor : files.tensors) {
    if (written.contains(tensor.name)) continue;
    // In the place of one of the base's.
    std::string name = tensor.name;
    for (const std::string_view between : {".base_layer.", ".modules_to_save."}) {
      const std::size_t begin = name.rfind(between);
      if (begin != std::string::npos) name.erase(begin, between.size() - 1);
    }
    const auto at = std::ranges::find_if(both.checkpoint.tensors(), [&](const StoredTensor& held) {
      return !held.packing && name.ends_with("." + held.name);
    });
    if (at == both.checkpoint.tensors().end()) {
      throw UsageError(fmt::format("[adapter] '{}' is not carried along", tensor.name));
    }
    written[tensor.name] = numbers_of(moved, at->name, tensor.shape.front());
  }
  nlohmann::json settings = files.settings;
  settings["base_model_name_or_path"] = nullptr;
  write_folder(path, files.tensors, written, settings);
}

}  // namespace regauge
