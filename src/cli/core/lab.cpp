#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "../verb.h"
#include "regauge/base/error.h"

namespace regauge::cli {

// The lab's verbs live in the program regauge-lab beside this one, which links libtorch; it takes
// the whole command line.
void add_lab(CLI::App& app, char** arguments, int&) {
  auto* lab = app.add_subcommand(
      "lab", "Run, train and measure models on libtorch (the program regauge-lab)");
  lab->prefix_command();
  lab->set_help_flag();
  lab->callback([arguments] {
    const auto self = std::filesystem::canonical("/proc/self/exe");
    const auto program = self.parent_path() / "regauge-lab";
    execv(program.c_str(), arguments);
    throw UsageError(
        fmt::format("lab: {} is not there or cannot be run; build it with -DREGAUGE_WITH_LAB=ON",
                    program.string()));
  });
}

}  // namespace regauge::cli
