#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "progress.h"
#include "regauge/action/fold.h"
#include "regauge/action/rewrite.h"
#include "regauge/equivalence/canon.h"

namespace regauge::python {
namespace {

using Output = std::optional<std::filesystem::path>;

// To a file, which is opened again, or in memory.
Model carry_out(const ParameterSource& source, const Symmetry& symmetry, const Element& element,
                Rewrite::Target target, const Output& output, Progress& progress) {
  const Rewrite rewrite(source, symmetry, element, std::move(target));
  if (!output) return rewrite.run_in_memory(progress);
  rewrite.run(*output, progress);
  return Model::open(*output);
}

std::optional<DType> dtype_named(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return writable_dtype(*name);
}

Model act(const Model& model, const Member& member, const Output& output,
          const std::optional<std::string>& dtype, const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    const ParameterSource source(model, member.group->architecture);
    Rewrite::Target target = Rewrite::same_as(model);
    target.dtype = dtype_named(dtype);
    return carry_out(source, *member.group, member.element, target, output, reporter);
  });
}

Member fold_element_of(const Model& model, const Group& group, bool biases, bool centring,
                       const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    const ParameterSource source(model, group->architecture);
    const FoldOptions options{.gains = true, .biases = biases, .centring = centring};
    return Member{group, fold_element(*group, source.reader(), options, reporter)};
  });
}

// The element, and where rounding decides what it is.
std::pair<Member, std::vector<std::string>> canon_element_of(const Model& model, const Group& group,
                                                             const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    Canon form = canon(*group, ParameterSource(model, group->architecture), reporter);
    return std::pair(Member{group, std::move(form.element)}, std::move(form.limits));
  });
}

Model convert(const Model& model, const std::string& format,
              const std::optional<std::string>& family, const Output& output,
              const std::optional<std::string>& dtype, const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    const ParameterSource source(model, model.architecture);
    const Symmetry symmetry = symmetry_of(model.architecture);
    const Rewrite::Target target{family.value_or(model.layout.family()), format_from_name(format),
                                 dtype_named(dtype)};
    return carry_out(source, symmetry, Element{}, target, output, reporter);
  });
}

}  // namespace

void add_rewrites(nb::module_& module) {
  module.def("act", act, nb::arg("model"), nb::arg("element"), nb::arg("output") = nb::none(),
             nb::arg("dtype") = nb::none(), nb::arg("progress") = nb::none());
  module.def("fold_element", fold_element_of, nb::arg("model"), nb::arg("symmetry"),
             nb::arg("biases") = true, nb::arg("centring") = false,
             nb::arg("progress") = nb::none());
  module.def("canon_element", canon_element_of, nb::arg("model"), nb::arg("symmetry"),
             nb::arg("progress") = nb::none());
  module.def("convert", convert, nb::arg("model"), nb::arg("format"),
             nb::arg("family") = nb::none(), nb::arg("output") = nb::none(),
             nb::arg("dtype") = nb::none(), nb::arg("progress") = nb::none());
}

}  // namespace regauge::python
