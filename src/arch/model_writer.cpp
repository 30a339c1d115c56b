#include "regauge/arch/layout.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge {
namespace {

template <class Scalar>
std::vector<std::byte> encoded(DType dtype, std::span<const Scalar> values,
                               const StoredTensor& at) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(at.bytes));
  encode<Scalar>(dtype, values, bytes);
  return bytes;
}

}  // namespace

template <class Scalar>
void write_parameters(const std::filesystem::path& path, const std::string& family, Format format,
                      const Architecture& architecture, const Parameters<Scalar>& parameters,
                      DType dtype) {
  const Layout layout = layout_for(family, format, architecture);
  CheckpointWriter::Plan plan;
  plan.format = format;
  plan.config = config_for(family, format, architecture, nullptr);
  for (const auto& stored : layout.stored()) {
    plan.tensors.push_back({.name = stored.name, .dtype = dtype, .shape = stored.shape});
  }
  for (const auto& constant : layout.constants()) {
    plan.tensors.push_back({.name = constant.name,
                            .dtype = DType::f32,
                            .shape = {static_cast<std::int64_t>(constant.values.size())}});
  }
  CheckpointWriter writer(path, std::move(plan));
  for (const auto& tensor : writer.tensors()) {
    for (const auto& constant : layout.constants()) {
      if (constant.name != tensor.name) continue;
      writer.write(tensor.name, encoded<double>(tensor.dtype, constant.values, tensor));
    }
    for (const auto& stored : layout.stored()) {
      if (stored.name != tensor.name) continue;
      std::vector<Scalar> values(static_cast<std::size_t>(tensor.elements()));
      for (const auto& name : stored.parameters) {
        layout.insert<Scalar>(name, parameters.at(name), stored, values);
      }
      writer.write(tensor.name, encoded<Scalar>(tensor.dtype, values, tensor));
    }
  }
  writer.finish();
}

template void write_parameters(const std::filesystem::path&, const std::string&, Format,
                               const Architecture&, const Parameters<float>&, DType);
template void write_parameters(const std::filesystem::path&, const std::string&, Format,
                               const Architecture&, const Parameters<double>&, DType);

}  // namespace regauge
