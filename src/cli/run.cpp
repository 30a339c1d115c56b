#include "run.h"

#include <fmt/format.h>

#include <cstdio>

#include "regauge/base/error.h"
#include "verb.h"

namespace regauge::cli {
namespace {

// 0 done or yes, 1 a negative answer, 2 bad usage or input, 3 internal error, 130 cancelled.
constexpr int kBadInput = 2;
constexpr int kInternal = 3;
constexpr int kCancelled = 130;

// What was wrong, and where the verb's options stand.
std::string failure_message(const CLI::App* app, const CLI::Error& error) {
  std::string verb = "regauge";
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    verb += " " + app->get_name();
  }
  return fmt::format("regauge: {}\nSee {} --help for what there is.\n", error.what(), verb);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{"Regauge: the parameter symmetries of Transformers"};
  app.name("regauge");
  app.set_version_flag("--version", std::string("regauge ") + REGAUGE_VERSION);
  app.require_subcommand(1);
  app.failure_message(failure_message);
  app.footer(
      "Results go to standard output, everything else to standard error.\n"
      "Exit: 0 done or yes, 1 a negative answer, 2 bad usage or input, 3 internal error, 130 "
      "cancelled.\n"
      "A MODEL is a folder with config.json and safetensors, a .gguf file, or a llama2.c .bin "
      "file.");
  int exit_code = 0;
  add_inspect(app, exit_code);
  add_act(app, exit_code);
  add_fold(app, exit_code);
  add_convert(app, exit_code);
  add_canon(app, exit_code);
  add_diff(app, exit_code);
  add_verify(app, exit_code);
  add_align(app, argv, exit_code);
  add_report(app, exit_code);
  add_lab(app, argv, exit_code);
  const CancelOnInterrupt cancel;
  try {
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  } catch (const Cancelled&) {
    fmt::print(stderr, "regauge: cancelled; nothing was written\n");
    return kCancelled;
  } catch (const Error& error) {
    fmt::print(stderr, "regauge: {}\n", error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    fmt::print(stderr, "regauge: internal error: {}\n", error.what());
    return kInternal;
  }
}

}  // namespace regauge::cli
