#include "regauge/base/version.h"

namespace regauge {

std::string_view version() { return REGAUGE_VERSION; }

}  // namespace regauge
