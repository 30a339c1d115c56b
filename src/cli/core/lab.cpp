#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <utility>

#include "../align_task.h"
#include "../verb.h"
#include "regauge/base/error.h"

namespace regauge::cli {
namespace {

[[noreturn]] void hand_over(char** arguments, const std::string& verb) {
  std::error_code unknown;  // Linux alone has the link
  auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown) self = std::filesystem::absolute(arguments[0]);
  const auto program = self.parent_path() / "regauge-lab";
  execv(program.c_str(), arguments);
  execvp("regauge-lab", arguments);
  throw UsageError(fmt::format(
      "{}: regauge-lab is neither in {} nor on PATH; it is not part of the Python wheel: build it "
      "from source with -DREGAUGE_WITH_LAB=ON (docs/lab.md)",
      verb, self.parent_path().string()));
}

}  // namespace

// The lab's verbs live in the program regauge-lab, beside this one or on PATH, which links
// libtorch; it takes the whole command line.
void add_lab(CLI::App& app, char** arguments, int&) {
  constexpr std::array<std::pair<const char*, const char*>, 2> kVerbs{{
      {"barrier",
       "Measure loss and accuracy on the straight line between two models (regauge-lab)"},
      {"lab", "Run, train and measure models on libtorch (regauge-lab)"},
  }};
  for (const auto& [name, what] : kVerbs) {
    auto* verb = app.add_subcommand(name, what);
    verb->prefix_command();
    verb->set_help_flag();
    verb->callback([arguments, which = std::string(name)] { hand_over(arguments, which); });
  }
}

LabAligner declare_lab_align(CLI::App& verb, char** arguments) {
  verb.allow_extras();  // options of the lab's; the other program checks them
  return [arguments](const AlignTask&) -> Alignment { hand_over(arguments, "align"); };
}

}  // namespace regauge::cli
