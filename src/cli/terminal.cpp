#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/jobs.h"
#include "print.h"
#include "regauge/base/error.h"
#include "verb.h"

namespace regauge::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) { interrupted = true; }

class TerminalProgress : public Progress {
 public:
  TerminalProgress(bool visible, int jobs) : visible_(visible), jobs_(jobs) {}

  void start(const std::string& what, std::int64_t total) override {
    what_ = what;
    total_ = total;
    done_ = 0;
    begun_ = shown_ = Clock::now();
  }

  void advance(std::int64_t units) override {
    if (interrupted) {
      clear();
      throw Cancelled();
    }
    done_ += units;
    const auto now = Clock::now();
    if (!visible_ || total_ <= 0 || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const double elapsed = std::chrono::duration<double>(now - begun_).count();
    const double left = share > 0 ? elapsed * (1 - share) / share : 0;
    say("\r\x1b[K{}  {:3.0f} %  {:.0f} s left", what_, 100 * share, std::ceil(left));
    std::fflush(stderr);
  }

  void finish() override { clear(); }
  int jobs() const override { return jobs_; }

 private:
  using Clock = std::chrono::steady_clock;

  void clear() const {
    if (visible_) say("\r\x1b[K");
  }

  bool visible_;
  int jobs_;
  std::string what_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  Clock::time_point begun_;
  Clock::time_point shown_;
};

constexpr std::array<std::pair<const char*, double>, 7> kUnits = {{{"GiB", 1073741824.0},
                                                                   {"MiB", 1048576.0},
                                                                   {"KiB", 1024.0},
                                                                   {"GB", 1e9},
                                                                   {"MB", 1e6},
                                                                   {"KB", 1e3},
                                                                   {"B", 1.0}}};

}  // namespace

std::unique_ptr<Progress> make_progress(bool visible) {
  return std::make_unique<TerminalProgress>(visible && isatty(STDERR_FILENO) != 0, 1);
}

std::unique_ptr<Progress> make_progress_of(int jobs) {
  return std::make_unique<TerminalProgress>(isatty(STDERR_FILENO) != 0, jobs);
}

void declare_jobs(CLI::App& verb, int& jobs) {
  jobs = default_jobs();
  verb.add_option(
          "--jobs", jobs,
          "layers to work on at a time, each on a thread of its own; the result is the same "
          "for any number (default: OMP_NUM_THREADS, or one per core)")
      ->check(whole_number(1));
}

CancelOnInterrupt::CancelOnInterrupt() {
  interrupted = false;
  const auto set = [&](int signal, void (*handler)(int)) {
    struct sigaction action = {}, before = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGXCPU}) set(signal, on_interrupt);
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) set(SIGHUP, on_interrupt);
  for (const int signal : {SIGPIPE, SIGXFSZ}) set(signal, SIG_IGN);
}

CancelOnInterrupt::~CancelOnInterrupt() {
  for (const auto& [signal, before] : before_) sigaction(signal, &before, nullptr);
}

void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // Reading from a descriptor for writing fails, and the other way round; the lowest is taken.
    (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

std::string format_bytes(double bytes) {
  for (const auto& [unit, size] : {kUnits[3], kUnits[4], kUnits[5]}) {
    if (bytes >= size) return fmt::format("{:.3g} {}", bytes / size, unit);
  }
  return fmt::format("{:.0f} B", bytes);
}

CLI::Validator whole_number(std::uint64_t least) {
  return {[least](const std::string& text) {
            std::uint64_t value = 0;
            const char* end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, value);
            const bool fits = read.ec == std::errc() && read.ptr == end && value >= least;
            return fits ? std::string()
                        : fmt::format("'{}' is not a whole number from {} on", text, least);
          },
          ""};
}

std::int64_t parse_bytes(const std::string& text) {
  std::size_t used = 0;
  double number = -1;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  while (used < text.size() && text[used] == ' ') ++used;
  const std::string unit = used < text.size() ? text.substr(used) : "B";
  for (const auto& [name, size] : kUnits) {
    if (unit == name && used > 0 && number >= 0 && number * size < 9e18) {
      return static_cast<std::int64_t>(number * size);
    }
  }
  throw UsageError(fmt::format("'{}' is not an amount of memory; write 1GB, 512MiB, ...", text));
}

}  // namespace regauge::cli
