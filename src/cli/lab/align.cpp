#include <fmt/format.h>

#include "../align_task.h"
#include "regauge/base/error.h"

namespace regauge::cli {

LabAligner declare_lab_align(CLI::App&, char**) {
  return [](const AlignTask& task) -> Alignment {
    throw UsageError(
        fmt::format("align: the method '{}' is not there yet; there are two_stage and "
                    "weights",
                    method_name(task.method)));
  };
}

}  // namespace regauge::cli
