#pragma once

#include <string>
#include <vector>

#include "regauge/symmetry/element.h"

namespace regauge {

// Maps that carry b's tensors to a's, both in standard form, added to `found`. `limits` receives
// what the tensors do not determine.

// The stream's map, from the tensors of embedding and head that live in it.
void recover_stream(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found, std::vector<std::string>& limits);

// The lengths that norms forget, as far as these tensors show them: every factor that is not found
// yet and acts on one of them. True if there was any.
bool recover_scales(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found);

}  // namespace regauge
