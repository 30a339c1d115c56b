#pragma once

#include "regauge/action/act.h"
#include "regauge/equivalence/diff.h"
#include "temporary.h"

namespace regauge::testing {

// Models as files, in a folder that goes away with the object.
class Written {
 public:
  explicit Written(const std::string& name) : folder_(name) {}

  std::filesystem::path fresh() { return folder_ / std::to_string(count_++); }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  Model write(const Architecture& shape, const Parameters<double>& parameters, DType dtype) {
    const auto path = fresh();
    write_parameters<double>(path, "regauge", Format::safetensors, shape, parameters, dtype);
    return Model::open(path);
  }

 private:
  Temporary folder_;
  int count_ = 0;
};

// By a random element.
inline Parameters<double> moved(const Architecture& shape, Parameters<double> parameters,
                                std::uint64_t seed) {
  const Symmetry symmetry = symmetry_of(shape);
  act(symmetry, random_element(symmetry, seed), parameters);
  return parameters;
}

// A verdict with its reasons and the tensors that differ.
inline std::string report(const Diff& result) {
  std::string text(verdict_name(result.verdict));
  for (const auto& reason : result.reasons) text += "\n" + reason;
  for (const auto& r : result.residuals) {
    if (!r.agrees()) text += "\n" + r.tensor + " " + std::to_string(r.excess);
  }
  return text;
}

}  // namespace regauge::testing
