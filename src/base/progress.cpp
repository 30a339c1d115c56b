#include "regauge/base/progress.h"

namespace regauge {

Progress& Progress::silent() {
  static Progress instance;
  return instance;
}

}  // namespace regauge
