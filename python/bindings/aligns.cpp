#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "progress.h"
#include "regauge/align/align.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"

namespace regauge::python {
namespace {

// The element, and the method's report as JSON.
std::pair<Member, std::string> align_checkpoints(const Model& a, const Model& b,
                                                 const std::string& method,
                                                 const std::string& scope, std::uint64_t seed,
                                                 std::int64_t iterations, std::int64_t starts,
                                                 const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    if (runs_models(method_from_name(method))) {
      throw UsageError(fmt::format(
          "[align] method '{}' runs models; here there are weights, two_stage, and learned with an "
          "objective",
          method));
    }
    const Alignment found =
        align(a, b, method_from_name(method), {Scope(scope), seed, iterations, starts}, reporter);
    const Group group = group_of(joint_architecture(a.architecture, b.architecture));
    return std::pair(Member{group, found.a_from_b}, found.report.dump());
  });
}

}  // namespace

void add_aligns(nb::module_& module) {
  module.def("align", align_checkpoints, nb::arg("a"), nb::arg("b"), nb::arg("method"),
             nb::arg("scope"), nb::arg("seed"), nb::arg("iterations"), nb::arg("starts"),
             nb::arg("progress") = nb::none());
}

}  // namespace regauge::python
