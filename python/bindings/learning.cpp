#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "align/comparable_pair.h"
#include "align/learned/learned.h"
#include "arrays.h"
#include "bindings.h"
#include "progress.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/base/error.h"

namespace regauge::python {
namespace {

using Gradient = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A Python callable, parameters -> (loss, gradients), both by canonical name. It may have methods
// place(t) and advance(), as Objective has. The interpreter is held only while it runs.
class CallableObjective final : public Objective<float> {
 public:
  explicit CallableObjective(nb::handle callable) : callable_(callable) {}

  double evaluate(const Parameters<float>& parameters, Parameters<float>* gradient) override {
    const nb::gil_scoped_acquire held;
    nb::dict arrays;
    for (const auto& [name, value] : parameters) arrays[name.c_str()] = as_array(value);
    const auto [loss, slopes] = nb::cast<std::pair<double, nb::object>>(callable_(arrays));
    if (gradient == nullptr) return loss;
    gradient->clear();
    for (const auto& [name, value] : parameters) {
      (*gradient)[name] = slope(nb::cast<Gradient>(slopes[name.c_str()]), name, value);
    }
    return loss;
  }
  void place(double t) override { call("place", t); }
  void advance() override { call("advance"); }

 private:
  static Matrix<float> slope(const Gradient& array, const std::string& name,
                             const Matrix<float>& like) {
    const auto rows = static_cast<Eigen::Index>(array.shape(0));
    const auto cols = static_cast<Eigen::Index>(array.shape(1));
    if (rows != like.rows() || cols != like.cols()) {
      throw UsageError("[objective] the gradient of '" + name + "' has another shape than it");
    }
    return Eigen::Map<const Matrix<float>>(array.data(), rows, cols);
  }

  template <class... Arguments>
  void call(const char* method, Arguments... arguments) const {
    const nb::gil_scoped_acquire held;
    if (nb::hasattr(callable_, method)) callable_.attr(method)(arguments...);
  }

  nb::handle callable_;  // the caller's
};

// From `start`, an element between the models, to a better one; with a report as JSON.
std::pair<Member, std::string> learn_from(const Model& a, const Model& b, const Member& start,
                                          const nb::object& objective, const std::string& settings,
                                          const std::string& scope,
                                          const std::filesystem::path& checkpoint,
                                          const nb::object& progress) {
  const Learning learning = learning_from_json(nlohmann::json::parse(settings));
  CallableObjective callable(objective);
  return released(progress, [&](Progress& reporter) {
    const Group& group = start.group;
    const ParameterSource from_a(a, group->architecture), from_b(b, group->architecture);
    const Scope movable(scope);
    const ComparablePair pair(*group, from_a.reader(), from_b.reader(), movable, reporter,
                              reverses_stream(start.element) ? -1 : 1);
    Learner learner(*group, pair.a(), pair.b(), pair.between_forms(start.element), learning,
                    movable);
    const Element found = learn(learner, callable, learning, checkpoint, reporter);
    return std::pair(Member{group, pair.between_models(found)}, learner.report().dump());
  });
}

}  // namespace

void add_learning(nb::module_& module) {
  module.def("learn", learn_from, nb::arg("a"), nb::arg("b"), nb::arg("start"),
             nb::arg("objective"), nb::arg("settings"), nb::arg("scope"), nb::arg("checkpoint"),
             nb::arg("progress") = nb::none());
}

}  // namespace regauge::python
