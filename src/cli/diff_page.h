#pragma once

#include <filesystem>

#include "regauge/equivalence/certificate.h"
#include "regauge/equivalence/diff.h"

namespace regauge::cli {

// What a page says besides the diff itself.
struct PageNotes {
  std::string certificate;  // where one was written; empty: none
  Fingerprint a, b;         // of a certificate
};

// The diff as one HTML page that needs nothing else: no script, no network, light or dark as the
// reader likes it. Well-formed XML. Throws FileError.
void write_diff_page(const std::filesystem::path& path, const Model& a, const Model& b,
                     const Diff& result, const PageNotes& notes);

}  // namespace regauge::cli
