#include "connect/sweep.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "lab_verb.h"
#include "print.h"
#include "regauge/base/error.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace regauge::cli {
namespace {

constexpr int kFailed = 1, kCancelled = 130;
constexpr std::chrono::milliseconds kLook{500};  // at what the processes have done

// The processes that share the work; all end with this or, on Linux, with the process that made it.
class Crew {
 public:
  Crew(const connect::Sweep& sweep, int jobs, int threads) {
    const pid_t parent = getpid();
    for (int i = 0; i < jobs; ++i) {
      const pid_t child = fork();
      if (child == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
        _exit(getppid() == parent ? share(sweep, threads) : kCancelled);
      }
      if (child > 0) children_.insert(child);
    }
    if (children_.empty()) throw FileError("no process can be started");
  }
  ~Crew() {
    for (const pid_t child : children_) kill(child, SIGTERM);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Whether any is still at work; throws if one was told to stop.
  bool at_work() {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      children_.erase(ended);
      if (WIFEXITED(status) && WEXITSTATUS(status) == kCancelled) throw Cancelled();
      if (WIFSIGNALED(status)) {
        say("\rregauge: a process was ended by signal {}{}\n", WTERMSIG(status),
            WTERMSIG(status) == SIGKILL ? "; was there too little memory?" : "");
      }
    }
    return !children_.empty();
  }

 private:
  static int share(const connect::Sweep& sweep, int threads) {
    int code = 0;
    const auto tell = [](const std::string& piece, const std::string& why) {
      say("\rregauge: {}: {}\n", piece, why);
    };
    try {
      sweep.run(threads, *make_progress(false), tell);
    } catch (const Cancelled&) {
      code = kCancelled;
    } catch (const std::exception& error) {
      say("\rregauge: {}\n", error.what());
      code = kFailed;
    }
    std::fflush(nullptr);
    return code;
  }

  std::set<pid_t> children_;
};

}  // namespace

void add_sweep(CLI::App& lab, int& exit_code) {
  struct Options {
    std::string file, folder;
    int jobs = 1, threads = 1;
    bool dry_run = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = lab.add_subcommand("sweep", "Train and measure what a study still lacks");
  verb->add_option("FILE", options->file, "the experiment, as JSON: docs/study.md has the keys")
      ->required();
  verb->add_option("-o,--output", options->folder,
                   "the study's folder; the same command goes on where it was interrupted, and "
                   "several may work on one folder")
      ->required();
  verb->add_option("--jobs", options->jobs, "processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_option("--threads", options->threads,
                   "of each; on one thread a model is the same each time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_flag("--dry-run", options->dry_run,
                 "check the file, say how much is missing, and stop");
  verb->footer(
      "`regauge report FOLDER -o report.html --experiment FILE` shows what there is and what is "
      "missing.");
  verb->callback([options, &exit_code] {
    const connect::Experiment experiment = connect::read_experiment(options->file);
    const connect::Sweep sweep(experiment, options->folder);
    say("{}: {} models, {} measurements; {} of {} are done\n", experiment.name,
        experiment.models.size(), experiment.measurements.size(), sweep.done(), sweep.total());
    exit_code = 0;
    if (options->dry_run) return;
    const auto progress = make_progress();
    std::int64_t seen = sweep.done();
    progress->start(experiment.name, sweep.total() - seen);
    try {
      sweep.forget_failures();
      Crew crew(sweep, options->jobs, options->threads);
      while (crew.at_work()) {
        const std::int64_t done = sweep.done();
        progress->advance(done - seen);
        seen = done;
        std::this_thread::sleep_for(kLook);
      }
    } catch (const Cancelled&) {
      say("regauge: interrupted; the same command goes on from here\n");
      exit_code = kCancelled;
      return;
    }
    progress->finish();
    if (sweep.done() < sweep.total()) {
      throw UsageError(fmt::format(
          "{} of {} are done; why the others are not stands above, and the same command goes on",
          sweep.done(), sweep.total()));
    }
    answer("{}: {} of {} are done, records in {}/records\n", experiment.name, sweep.done(),
           sweep.total(), options->folder);
  });
}

}  // namespace regauge::cli
