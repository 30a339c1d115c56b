#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "regauge/base/progress.h"

namespace regauge {

// The threads that this process may use: OMP_NUM_THREADS where it is set, else a thread for each
// core that the process may run on.
int default_jobs();

// Calls work(i, progress) for every i in [0, count), progress.jobs() of them at a time, each on a
// thread of its own and on one thread of the BLAS; and keep(i) for each that is done, on the
// calling thread and in order. No more than twice as many are begun and not yet kept.
//
// What comes out is the same for every number of jobs as long as work() neither writes what
// others read nor reads what keep() writes. The progress that work() is given may be advanced by
// it, allows one job, and is reported by the calling thread. An exception of the first i that fails
// is thrown again when all before it are kept; those behind it are cancelled.
void run_jobs(std::int64_t count, Progress& progress,
              const std::function<void(std::int64_t, Progress&)>& work,
              const std::function<void(std::int64_t)>& keep);

// The same for work(i, progress) that gives something, which goes to keep(i, result).
template <class Work, class Keep>
void for_each_job(std::int64_t count, Progress& progress, const Work& work, const Keep& keep) {
  using Result = std::invoke_result_t<const Work&, std::int64_t, Progress&>;
  std::vector<std::optional<Result>> results(static_cast<std::size_t>(count));
  run_jobs(
      count, progress,
      [&](std::int64_t i, Progress& own) {
        results[static_cast<std::size_t>(i)].emplace(work(i, own));
      },
      [&](std::int64_t i) {
        auto& result = results[static_cast<std::size_t>(i)];
        keep(i, std::move(*result));
        result.reset();
      });
}

// For work that gives nothing.
template <class Work>
void for_each_job(std::int64_t count, Progress& progress, const Work& work) {
  run_jobs(count, progress, work, [](std::int64_t) {});
}

}  // namespace regauge
