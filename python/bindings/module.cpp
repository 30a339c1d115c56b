#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "regauge/base/version.h"
#include "run.h"

namespace regauge::python {
namespace {

// The command line, in this process.
int run_command_line(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return cli::run(static_cast<int>(arguments.size()), pointers.data());
}

}  // namespace
}  // namespace regauge::python

NB_MODULE(_core, module) {
  using namespace regauge::python;
  module.def("version", regauge::version);
  module.def("run_command_line", run_command_line, nb::arg("arguments"),
             nb::call_guard<nb::gil_scoped_release>());
  add_errors(module);
  add_models(module);
  add_groups(module);
  add_rewrites(module);
  add_diffs(module);
  add_aligns(module);
  add_learning(module);
}
