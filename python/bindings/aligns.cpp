#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "arch/joint_architecture.h"
#include "bindings.h"
#include "progress.h"
#include "regauge/align/align.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/compare.h"

namespace regauge::python {
namespace {

// As which both models are read: untied unless both are tied, with every bias that one of them has.
Group joint_group(const Model& a, const Model& b) {
  const auto differences = architecture_differences(a.architecture, b.architecture);
  if (!differences.empty()) {
    throw UsageError(fmt::format("[align] the models differ in what they compute:\n  {}",
                                 fmt::join(differences, "\n  ")));
  }
  return group_of(joint_architecture(a.architecture, b.architecture));
}

auto aligner(const std::string& name) {
  switch (method_from_name(name)) {
    case AlignMethod::two_stage:
      return align_two_stage;
    case AlignMethod::weights:
      return align_weights;
    default:
      throw UsageError(fmt::format(
          "[align] method '{}' runs models; here there are weights, two_stage, and learned with an "
          "objective",
          name));
  }
}

// The element, and the method's report as JSON.
std::pair<Member, std::string> align(const Model& a, const Model& b, const std::string& method,
                                     const std::string& scope, std::uint64_t seed,
                                     std::int64_t iterations, std::int64_t starts,
                                     const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    const auto by = aligner(method);
    const Group group = joint_group(a, b);
    const ParameterSource from_a(a, group->architecture), from_b(b, group->architecture);
    const Alignment found = by(*group, from_a.reader(), from_b.reader(),
                               {Scope(scope), seed, iterations, starts}, reporter);
    return std::pair(Member{group, found.a_from_b}, found.report.dump());
  });
}

}  // namespace

void add_aligns(nb::module_& module) {
  module.def("align", align, nb::arg("a"), nb::arg("b"), nb::arg("method"), nb::arg("scope"),
             nb::arg("seed"), nb::arg("iterations"), nb::arg("starts"),
             nb::arg("progress") = nb::none());
}

}  // namespace regauge::python
