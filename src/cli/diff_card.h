#pragma once

#include <filesystem>

#include "regauge/equivalence/diff.h"

namespace regauge::cli {

// The diff as Markdown for a pull request: the verdict, its reasons, and a table of all tensors,
// folded away. Throws FileError.
void write_diff_card(const std::filesystem::path& path, const Model& a, const Model& b,
                     const Diff& result);

}  // namespace regauge::cli
