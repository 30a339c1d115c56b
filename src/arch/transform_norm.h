#pragma once

#include "regauge/arch/architecture.h"

namespace regauge {

// The norm behind the transform in front of the head. "head.norm" is the final norm of a plain
// stream.
inline const char* transform_norm(const Architecture& architecture) {
  return architecture.plain_stream() ? "head.transform.norm" : "head.norm";
}

}  // namespace regauge
