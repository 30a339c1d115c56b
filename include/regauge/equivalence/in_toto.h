#pragma once

#include "regauge/equivalence/certificate.h"
#include "regauge/equivalence/diff.h"

namespace regauge {

// The answer of `regauge diff` as a statement of in-toto (docs/in-toto.md), which the tools of
// supply chains sign, keep and look up: the files of both models are its subjects, and its
// predicate says what was found and names the certificate by its hash. A new file at `path`; `file`
// is where the certificate was written. Throws UsageError if the models are not the same.
void save_in_toto(const Diff& found, const Certificate& certificate,
                  const std::filesystem::path& file, const std::filesystem::path& path);

// The certificate that a statement names, or the path itself. Throws UsageError where there is
// none.
std::filesystem::path certificate_of(const std::filesystem::path& path);

}  // namespace regauge
