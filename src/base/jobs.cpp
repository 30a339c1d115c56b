#include "jobs.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>

#include "blas.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr auto kBetweenReports = std::chrono::milliseconds(100);

// What the threads share. Turns are begun in order; one that fails becomes the end.
class Crew {
 public:
  Crew(std::int64_t count, int jobs, const std::function<void(std::int64_t, Progress&)>& work)
      : work_(work), done_(static_cast<std::size_t>(count)), ahead_(2 * jobs), end_(count) {
    threads_.reserve(static_cast<std::size_t>(jobs));
    try {
      for (int i = 0; i < jobs; ++i) threads_.emplace_back([this] { run(); });
    } catch (const std::exception&) {
      // As many as the system allows; without any, the caller works.
      const std::lock_guard lock(mutex_);
      ahead_ = 2 * std::ssize(threads_);
    }
  }
  ~Crew() {
    {
      const std::lock_guard lock(mutex_);
      end_ = 0;
    }
    begun_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  bool is_empty() const { return threads_.empty(); }

  void keep_all(Progress& progress, const std::function<void(std::int64_t)>& keep) {
    std::unique_lock lock(mutex_);
    for (;;) {
      finished_.wait_for(lock, kBetweenReports,
                         [&] { return kept_ >= end_ || done_[static_cast<std::size_t>(kept_)]; });
      const std::int64_t kept = kept_;
      if (kept >= end_) break;
      const bool ready = done_[static_cast<std::size_t>(kept)];
      lock.unlock();
      progress.advance(units_.exchange(0));
      if (ready) keep(kept);
      lock.lock();
      if (!ready) continue;
      ++kept_;
      begun_.notify_all();
    }
    if (error_) std::rethrow_exception(error_);
    lock.unlock();
    progress.advance(units_.exchange(0));
  }

 private:
  // What one turn tells of itself.
  class Told final : public Progress {
   public:
    Told(Crew& crew, std::int64_t turn) : crew_(crew), turn_(turn) {}
    void advance(std::int64_t units) override {
      if (turn_ >= crew_.end_) throw Cancelled();
      crew_.units_ += units;
    }

   private:
    Crew& crew_;
    std::int64_t turn_;
  };

  void run() {
    const OneBlasThread one;
    std::unique_lock lock(mutex_);
    for (;;) {
      begun_.wait(lock, [&] { return next_ >= end_ || next_ < kept_ + ahead_; });
      if (next_ >= end_) return;
      const std::int64_t turn = next_++;
      lock.unlock();
      std::exception_ptr error;
      try {
        Told told(*this, turn);
        work_(turn, told);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (!error) {
        done_[static_cast<std::size_t>(turn)] = true;
      } else if (turn < end_) {
        end_ = turn;
        error_ = error;
        begun_.notify_all();
      }
      finished_.notify_all();
    }
  }

  const std::function<void(std::int64_t, Progress&)>& work_;
  std::mutex mutex_;
  std::condition_variable begun_, finished_;
  std::vector<bool> done_;
  std::int64_t ahead_;
  std::int64_t next_ = 0, kept_ = 0;
  std::atomic<std::int64_t> end_;
  std::atomic<std::int64_t> units_{0};
  std::exception_ptr error_;  // of the turn end_
  std::vector<std::thread> threads_;
};

}  // namespace

int default_jobs() {
  if (const char* variable = std::getenv("OMP_NUM_THREADS"); variable != nullptr) {
    const std::string_view text(variable);
    int wanted = 0;
    std::from_chars(text.data(), text.data() + text.size(), wanted);
    if (wanted > 0) return wanted;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void run_jobs(std::int64_t count, Progress& progress,
              const std::function<void(std::int64_t, Progress&)>& work,
              const std::function<void(std::int64_t)>& keep) {
  const OneBlasThread one;
  const auto jobs = static_cast<int>(std::min<std::int64_t>(count, progress.jobs()));
  if (jobs > 1) {
    Crew crew(count, jobs, work);
    if (!crew.is_empty()) return crew.keep_all(progress, keep);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    work(i, progress);
    keep(i);
  }
}

}  // namespace regauge
