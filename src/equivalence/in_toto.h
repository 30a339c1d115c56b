#pragma once

#include <filesystem>

#include "regauge/equivalence/certificate.h"

namespace regauge {

// JSON, and no element file.
bool is_in_toto(const std::filesystem::path& path);

// verify() with the certificate that the statement names, which lies beside it; and the statement
// must be true. It may be in an envelope (DSSE) or in a bundle of sigstore's; signatures are not
// looked at.
Verification verify_in_toto(const Model& a, const Model& b, const std::filesystem::path& path,
                            Progress& progress);

}  // namespace regauge
