#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "regauge/equivalence/compare.h"

namespace regauge {

// What a certificate binds itself to: the SHA-256 of a model's config and weight files, by name, as
// sha256sum prints them, so that anyone can check it without this program.
using Fingerprint = std::map<std::string, std::string>;
Fingerprint fingerprint(const Model& model, Progress& progress);

// That A and a_from_b . B are the same tensor by tensor. On disk an element file (`regauge act
// --element` applies it to B) with both fingerprints in its metadata and the residuals as notes.
struct Certificate {
  Element a_from_b;
  Fingerprint a, b;
  std::vector<TensorResidual> residuals;
};
void save_certificate(const Symmetry& symmetry, const Certificate& certificate,
                      const std::filesystem::path& path);

// The answer of `regauge verify`: every reason why the certificate does not hold; none if it does.
struct Verification {
  std::vector<std::string> problems;
  std::vector<TensorResidual> residuals;  // as measured now
  Fingerprint a, b;                       // of the files that were read
  bool identity = false;                  // the certificate's element moves nothing

  bool holds() const { return problems.empty(); }
};

// Applies the certificate's element to B and compares with A. Nothing that finds elements is used.
// `certificate` may be an in-toto statement (in_toto.h), which must be true, too. Throws UsageError
// for a file that is no certificate for models of these architectures.
Verification verify(const Model& a, const Model& b, const std::filesystem::path& certificate,
                    Progress& progress);

}  // namespace regauge
