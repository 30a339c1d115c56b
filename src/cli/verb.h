#pragma once

#include <CLI/CLI.hpp>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "regauge/base/progress.h"

namespace regauge::cli {

// Each verb declares itself; its callback throws, or returns through `exit_code`.
void add_demo(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_act(CLI::App& app, int& exit_code);
void add_fold(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_canon(CLI::App& app, int& exit_code);
void add_diff(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_align(CLI::App& app, char** arguments, int& exit_code);
// These print what the declared verbs say of themselves.
void add_completion(CLI::App& app, int& exit_code);
void add_man(CLI::App& app, int& exit_code);
// In regauge-lab the lab's verbs, in regauge the way there; `arguments` is main's argv.
void add_lab(CLI::App& app, char** arguments, int& exit_code);

// A bar with time left on standard error when that is a terminal and it is to be seen, silent
// otherwise; throws Cancelled when a CancelOnInterrupt was told to.
std::unique_ptr<Progress> make_progress(bool visible = true);
// The same for work on so many layers at a time.
std::unique_ptr<Progress> make_progress_of(int jobs);

// `--jobs N`, wherever work is spread over layers; the default is in `jobs` afterwards.
void declare_jobs(CLI::App& verb, int& jobs);

// While it lives, Ctrl-C, SIGTERM, SIGHUP (unless it was ignored, as nohup does) and SIGXCPU cancel
// the work, which then removes what it has not finished; and a closed pipe or a limit on the size
// of files is an error of the write that meets it, not a signal that ends the program. After that,
// signals do what they did before.
class CancelOnInterrupt {
 public:
  CancelOnInterrupt();
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

// Gives a standard stream that is closed a descriptor that fails, so that no file that is opened
// later takes its place and its output.
void keep_standard_streams();

// Of an option's value.
CLI::Validator whole_number(std::uint64_t least);

// "1.5 GB" and back: a number with an optional unit B, KB, MB, GB (powers of 1000) or KiB, MiB,
// GiB.
std::string format_bytes(double bytes);
std::int64_t parse_bytes(const std::string& text);

}  // namespace regauge::cli
