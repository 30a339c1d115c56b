#include "bindings.h"
#include "io/corrupt.h"
#include "regauge/base/error.h"

namespace regauge::python {

void add_errors(nb::module_& module) {
  // Later ones are tried first.
  nb::object base = nb::exception<Error>(module, "Error");
  base.attr("__doc__") = "Everything that goes wrong; the message says what to do.";
  const auto add = [&](nb::object type, const char* doc) { type.attr("__doc__") = doc; };
  add(nb::exception<FileError>(module, "FileError", base),
      "A file that cannot be opened, read or written.");
  add(nb::exception<UsageError>(module, "UsageError", base),
      "An argument, a description or a request that cannot be carried out as asked.");
  add(nb::exception<CorruptFile>(module, "CorruptFile", base), "A file that fails a check.");
  add(nb::exception<Cancelled>(module, "Cancelled", base), "The user asked a long job to stop.");
}

}  // namespace regauge::python
