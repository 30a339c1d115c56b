#include "regauge/connect/sweep.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>

#include "lab_verb.h"
#include "regauge/base/error.h"

namespace regauge::cli {
namespace {

constexpr int kFailed = 1, kCancelled = 130;
constexpr std::chrono::milliseconds kLook{500};  // at what the processes have done

// The processes that share the work; all end with this.
class Crew {
 public:
  Crew(const connect::Sweep& sweep, int jobs, int threads) {
    for (int i = 0; i < jobs; ++i) {
      const pid_t child = fork();
      if (child == 0) _exit(share(sweep, threads));
      if (child > 0) children_.insert(child);
    }
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
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
      if (code == kCancelled) throw Cancelled();
      failed_ |= code != 0;
    }
    return !children_.empty();
  }
  bool failed() const { return failed_; }

 private:
  static int share(const connect::Sweep& sweep, int threads) {
    int code = 0;
    try {
      for (const auto& [piece, why] : sweep.run(threads, *make_progress(false))) {
        fmt::print(stderr, "\rregauge: {}: {}\n", piece, why);
        code = kFailed;
      }
    } catch (const Cancelled&) {
      code = kCancelled;
    } catch (const std::exception& error) {
      fmt::print(stderr, "\rregauge: {}\n", error.what());
      code = kFailed;
    }
    std::fflush(nullptr);
    return code;
  }

  std::set<pid_t> children_;
  bool failed_ = false;
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
  verb->add_flag("--dry-run", options->dry_run, "say what is missing, and stop");
  verb->footer("`regauge report FOLDER -o report.html` shows the records.");
  verb->callback([options, &exit_code] {
    const connect::Experiment experiment = connect::read_experiment(options->file);
    const connect::Sweep sweep(experiment, options->folder);
    fmt::print(stderr, "{}: {} models, {} measurements; {} of {} are done\n", experiment.name,
               experiment.models.size(), experiment.measurements.size(), sweep.done(),
               sweep.total());
    exit_code = 0;
    if (options->dry_run) return;
    const auto progress = make_progress();
    std::int64_t seen = sweep.done();
    progress->start(experiment.name, sweep.total() - seen);
    bool failed = false;
    try {
      Crew crew(sweep, options->jobs, options->threads);
      while (crew.at_work()) {
        const std::int64_t done = sweep.done();
        progress->advance(done - seen);
        seen = done;
        std::this_thread::sleep_for(kLook);
      }
      failed = crew.failed();
    } catch (const Cancelled&) {
      fmt::print(stderr, "regauge: interrupted; the same command goes on from here\n");
      exit_code = kCancelled;
      return;
    }
    progress->finish();
    if (failed) {
      throw UsageError(fmt::format(
          "{} of {} are done; what failed is named above, and the same command tries it "
          "again",
          sweep.done(), sweep.total()));
    }
    fmt::print("{}: {} of {} are done, records in {}/records\n", experiment.name, sweep.done(),
               sweep.total(), options->folder);
  });
}

}  // namespace regauge::cli
