#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "diff_page.h"
#include "diff_text.h"
#include "io/parts.h"
#include "progress.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/diff.h"
#include "regauge/equivalence/in_toto.h"

namespace regauge::python {
namespace {

// What diff found, with the two models, to which its repair refers.
struct Comparison {
  Model a, b;
  Diff found;
};

void explain(Comparison& result, Progress& progress) {
  if (result.found.verdict == Verdict::same) return;
  result.found.diagnosis = diagnose(result.a, result.b, result.found, progress);
}

std::shared_ptr<const Comparison> compare_models(const Model& a, const Model& b,
                                                 const nb::object& progress) {
  const auto result = std::make_shared<Comparison>(Comparison{a, b, {}});
  released(progress, [&](Progress& reporter) {
    result->found = diff(result->a, result->b, reporter);
    explain(*result, reporter);
  });
  return result;
}

// Of work in parts: see _parts.py.
nlohmann::json asked_of_diff(const Model& a, const Model& b) {
  return asked_of("diff", {{"tokenizer", false}},
                  {{a.checkpoint.path().string(), &a.checkpoint},
                   {b.checkpoint.path().string(), &b.checkpoint}});
}

std::vector<PartRecord> records_of(const std::vector<std::string>& texts) {
  std::vector<PartRecord> records;
  for (const auto& text : texts) {
    records.push_back(part_from_text(text, fmt::format("record {}", records.size() + 1)));
  }
  return records;
}

std::string diff_part(const std::filesystem::path& path_a, const std::filesystem::path& path_b,
                      std::int64_t part, std::int64_t of, const std::vector<std::string>& made) {
  return released(nb::none(), [&](Progress& reporter) {
    const Model a = Model::open(path_a), b = Model::open(path_b);
    Parts parts = Parts::part({part, of}, asked_of_diff(a, b), records_of(made));
    DividedProgress progress(reporter, parts);
    try {
      diff(a, b, progress);
    } catch (const Parts::ShareDone&) {
    }
    return part_text(parts.own());
  });
}

// None where parts are to do more first.
std::shared_ptr<const Comparison> diff_joined(const std::filesystem::path& path_a,
                                              const std::filesystem::path& path_b,
                                              const std::vector<std::string>& made,
                                              const nb::object& progress) {
  return released(progress, [&](Progress& reporter) -> std::shared_ptr<const Comparison> {
    const auto result =
        std::make_shared<Comparison>(Comparison{Model::open(path_a), Model::open(path_b), {}});
    Parts parts =
        Parts::join(asked_of_diff(result->a, result->b), records_of(made), Parts::Rest::stop);
    DividedProgress divided(reporter, parts);
    try {
      result->found = diff(result->a, result->b, divided);
    } catch (const Parts::LoopLeft&) {
      return nullptr;
    }
    explain(*result, reporter);
    return result;
  });
}

Member a_from_b(const Comparison& self) {
  return {group_of(self.found.architecture), self.found.a_from_b};
}

std::vector<std::pair<std::string, std::string>> movements(const Comparison& self) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [what, where] : self.found.movements) list.emplace_back(what, where);
  return list;
}

void save_certificate_of(const Comparison& self, const std::filesystem::path& path,
                         const std::optional<std::filesystem::path>& in_toto,
                         const nb::object& progress) {
  if (self.found.verdict != Verdict::same) {
    throw UsageError("[certificate] the models are not the same function");
  }
  if (self.a.checkpoint.files().empty() || self.b.checkpoint.files().empty()) {
    throw UsageError(
        "[certificate] it names its models by the hashes of their files, and one is in memory: "
        "write it with regauge.convert(model, path) first");
  }
  released(progress, [&](Progress& reporter) {
    const Certificate certificate{self.found.a_from_b, fingerprint(self.a, reporter),
                                  fingerprint(self.b, reporter), self.found.residuals};
    save_certificate(symmetry_of(self.found.architecture), certificate, path);
    if (in_toto) save_in_toto(self.found, certificate, path, *in_toto);
  });
}

void save_page(const Comparison& self, const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) {
    throw UsageError(fmt::format("[diff] {} exists; choose another page", path.string()));
  }
  cli::write_diff_page(path, self.a, self.b, self.found, {});
}

Model repaired(const Comparison& self, const std::filesystem::path& path,
               const nb::object& progress) {
  return released(progress, [&](Progress& reporter) {
    repair(self.a, self.b, self.found.diagnosis, path, reporter);
    return Model::open(path);
  });
}

Verification verify_certificate(const Model& a, const Model& b,
                                const std::filesystem::path& certificate,
                                const nb::object& progress) {
  return released(progress,
                  [&](Progress& reporter) { return verify(a, b, certificate, reporter); });
}

}  // namespace

void add_diffs(nb::module_& module) {
  nb::class_<TensorResidual>(module, "TensorResidual",
                             "One tensor of A against the same of B in A's coordinates.")
      .def_ro("tensor", &TensorResidual::tensor)
      .def_ro("size", &TensorResidual::size, "root mean square of A's tensor")
      .def_ro("residual", &TensorResidual::residual, "root mean square of the difference")
      .def_ro("rounding", &TensorResidual::rounding, "of that, what rounding explains")
      .def_ro("excess", &TensorResidual::excess, "in units of what is accepted")
      .def_ro("standing_out", &TensorResidual::standing_out, "the row, column, entry or direction")
      .def_prop_ro("relation",
                   [](const TensorResidual& self) { return relation_name(self.relation); })
      .def_prop_ro("agrees", &TensorResidual::agrees)
      .def("__repr__", [](const TensorResidual& self) {
        const double size = self.size > 0 ? self.size : 1;
        return fmt::format("<regauge.TensorResidual {}: off by {:.2g}, rounding {:.2g}>",
                           self.tensor, self.residual / size, self.rounding / size);
      });

  nb::class_<Cause>(module, "Cause", "A known mistake that explains a difference.")
      .def_prop_ro("mistake", [](const Cause& self) { return mistake_name(self.mistake); })
      .def_ro("sentence", &Cause::sentence, "what was done, where")
      .def_ro("repair", &Cause::repair, "what undoes it; empty where nothing in the files does")
      .def_ro("tensors", &Cause::tensors)
      .def("__repr__", [](const Cause& self) {
        return fmt::format("<regauge.Cause {}: {}>", mistake_name(self.mistake), self.sentence);
      });

  nb::class_<Diagnosis>(module, "Diagnosis", "Why B is not A, which is taken as right.")
      .def_ro("causes", &Diagnosis::causes)
      .def_ro("certain", &Diagnosis::certain, "with all causes undone, B is the same as A")
      .def_ro("moved", &Diagnosis::moved, "besides, B stands in other coordinates")
      .def_ro("repairable", &Diagnosis::repairable)
      .def("__repr__", [](const Diagnosis& self) {
        return fmt::format("<regauge.Diagnosis: {}>",
                           self.causes.empty()
                               ? "no cause"
                               : fmt::format("{}", fmt::join(cli::diagnosis_lines(self), "; ")));
      });

  nb::class_<Verification>(module, "Verification", "Whether a certificate holds.")
      .def_prop_ro("holds", &Verification::holds)
      .def_ro("problems", &Verification::problems)
      .def_ro("residuals", &Verification::residuals)
      .def("__bool__", &Verification::holds)
      .def("__repr__", [](const Verification& self) {
        return fmt::format(
            "<regauge.Verification: {}>",
            self.holds() ? "holds" : fmt::format("{}", fmt::join(self.problems, "; ")));
      });

  nb::class_<Comparison>(module, "Comparison")
      .def_prop_ro("verdict",
                   [](const Comparison& self) { return verdict_name(self.found.verdict); })
      .def_prop_ro("statement",
                   [](const Comparison& self) { return statement_name(self.found.statement); })
      .def_prop_ro("sentence",
                   [](const Comparison& self) { return cli::verdict_sentence(self.found); })
      .def_prop_ro("grounds", [](const Comparison& self) { return cli::grounds(self.found); })
      .def_prop_ro("reasons", [](const Comparison& self) { return self.found.reasons; })
      .def_prop_ro("declarations", [](const Comparison& self) { return self.found.declarations; })
      .def_prop_ro("not_compared", [](const Comparison& self) { return self.found.not_compared; })
      .def_prop_ro("movements", movements)
      .def_prop_ro("residuals", [](const Comparison& self) { return self.found.residuals; })
      .def_prop_ro("diagnosis", [](const Comparison& self) { return self.found.diagnosis; })
      .def_prop_ro(
          "explanation",
          [](const Comparison& self) { return cli::diagnosis_lines(self.found.diagnosis); })
      .def_prop_ro("a_from_b", a_from_b)
      .def("save_certificate", save_certificate_of, nb::arg("path"),
           nb::arg("in_toto") = nb::none(), nb::arg("progress") = nb::none())
      .def("save_page", save_page, nb::arg("path"))
      .def("repair", repaired, nb::arg("path"), nb::arg("progress") = nb::none());

  module.def("diff", compare_models, nb::arg("a"), nb::arg("b"), nb::arg("progress") = nb::none());
  module.def("diff_part", diff_part, nb::arg("a"), nb::arg("b"), nb::arg("part"), nb::arg("of"),
             nb::arg("made"));
  module.def("diff_joined", diff_joined, nb::arg("a"), nb::arg("b"), nb::arg("made"),
             nb::arg("progress") = nb::none());
  module.def("verify", verify_certificate, nb::arg("a"), nb::arg("b"), nb::arg("certificate"),
             nb::arg("progress") = nb::none());
}

}  // namespace regauge::python
