#include "regauge/equivalence/certificate.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "equivalence/beside/unread.h"
#include "equivalence/beside/vocabulary.h"
#include "equivalence/in_toto.h"
#include "io/parts.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr const char* kFingerprintA = "certificate.a";
constexpr const char* kFingerprintB = "certificate.b";
constexpr const char* kTensors = "certificate.tensors";
constexpr const char* kResiduals = "residuals";

// A row for each tensor: size, residual, rounding.
Matrix<double> as_matrix(const std::vector<TensorResidual>& residuals) {
  Matrix<double> matrix(static_cast<Eigen::Index>(residuals.size()), 3);
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    const TensorResidual& r = residuals[static_cast<std::size_t>(i)];
    matrix.row(i) << r.size, r.residual, r.rounding;
  }
  return matrix;
}

void check_fingerprint(const nlohmann::json& metadata, const char* key, const Fingerprint& found,
                       std::vector<std::string>& problems) {
  const auto stated = nlohmann::json::parse(metadata.value(key, ""), nullptr, false);
  if (!stated.is_object()) {
    throw UsageError(
        "[verify] this is no certificate: it names no files; `regauge diff --certificate` writes "
        "one");
  }
  for (const auto& [file, hash] : found) {
    const auto entry = stated.find(file);
    if (entry == stated.end() || *entry != hash) {
      problems.push_back(fmt::format("{} is not the file that the certificate was made for", file));
    }
  }
  if (stated.size() != found.size()) {
    problems.push_back(fmt::format("the certificate was made for {} files and not {}",
                                   stated.size(), found.size()));
  }
}

}  // namespace

Fingerprint fingerprint(const Model& model, Progress& progress) {
  return model.checkpoint.digests(progress);
}

void save_certificate(const Symmetry& symmetry, const Certificate& certificate,
                      const std::filesystem::path& path) {
  ElementNotes notes;
  notes.metadata[kFingerprintA] = nlohmann::json(certificate.a).dump();
  notes.metadata[kFingerprintB] = nlohmann::json(certificate.b).dump();
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& residual : certificate.residuals) tensors.push_back(residual.tensor);
  notes.metadata[kTensors] = tensors.dump();
  notes.tensors[kResiduals] = as_matrix(certificate.residuals);
  save_element(symmetry, certificate.a_from_b, path, notes);
}

Verification verify(const Model& a, const Model& b, const std::filesystem::path& certificate,
                    Progress& progress) {
  if (is_in_toto(certificate)) return verify_in_toto(a, b, certificate, progress);
  Verification result;
  if (const auto differences = architecture_differences(a.architecture, b.architecture);
      !differences.empty()) {
    result.problems = differences;
    return result;
  }
  const Symmetry symmetry = symmetry_of(joint_architecture(a.architecture, b.architecture));
  const Element a_from_b = load_element(symmetry, certificate);
  result.identity = a_from_b.is_identity();
  const nlohmann::json metadata = Checkpoint::open(certificate).file_metadata().front();
  const auto of_a = unless_others_find([&] { return fingerprint(a, progress); });
  const auto of_b = unless_others_find([&] { return fingerprint(b, progress); });
  if (of_a) check_fingerprint(metadata, kFingerprintA, result.a = *of_a, result.problems);
  if (of_b) check_fingerprint(metadata, kFingerprintB, result.b = *of_b, result.problems);

  const ParameterSource from_a(a, symmetry.architecture), from_b(b, symmetry.architecture);
  result.residuals = compare(symmetry, a_from_b, from_a, from_b, progress);
  if (!of_a || !of_b) throw Parts::ShareDone();
  a.checkpoint.require_intact();
  b.checkpoint.require_intact();
  for (const auto& residual : result.residuals) {
    if (residual.agrees()) continue;
    const double size = residual.size > 0 ? residual.size : 1;
    const std::string where =
        residual.standing_out.empty() ? "" : fmt::format(" ({})", residual.standing_out);
    result.problems.push_back(
        fmt::format("{}: off by {:.2g} of its size{}, where rounding explains {:.2g}",
                    residual.tensor, residual.residual / size, where, residual.rounding / size));
  }
  const Unread unread = compare_unread(a, b, progress);
  result.problems.insert(result.problems.end(), unread.differ.begin(), unread.differ.end());
  if (!a_from_b.is_identity()) {
    result.problems.insert(result.problems.end(), unread.equal.begin(), unread.equal.end());
  }
  const auto vocabulary = vocabulary_differences(a, b).matter;
  result.problems.insert(result.problems.end(), vocabulary.begin(), vocabulary.end());
  for (auto& line : output_differences(a.architecture, b.architecture)) {
    result.problems.push_back(std::move(line));
  }
  return result;
}

}  // namespace regauge
