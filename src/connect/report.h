#pragma once

#include <string>

#include "summary.h"

namespace regauge::connect {

// A study as one HTML page that needs nothing else: what was measured and by what, barriers in
// tables, curves, planes and residuals. No script, well-formed XML; the text of records is escaped.
std::string report_page(const Summary& summary);

}  // namespace regauge::connect
