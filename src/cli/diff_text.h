#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "regauge/equivalence/diff.h"

namespace regauge::cli {

// The verdict in a sentence, and what it rests on in another.
std::string verdict_sentence(const Diff& result);
std::string grounds(const Diff& result);
// The verdict's name; "same up to declarations" where the files declare the function differently.
std::string kind_name(const Diff& result);

// Why B is not A, a line each: the head, then causes and repairs, indented.
std::vector<std::string> diagnosis_lines(const Diagnosis& diagnosis);

// "residual rotation (64 coordinates), gains folded (in B, 5 of 5 norms)"; empty if nothing moved.
std::string movements_line(const Diff& result);
nlohmann::json movements_as_json(const Diff& result);

}  // namespace regauge::cli
