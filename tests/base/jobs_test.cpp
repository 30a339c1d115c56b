#include "base/jobs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "base/blas.h"
#include "base/blas_library.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

class Counting : public Progress {
 public:
  explicit Counting(int jobs, std::int64_t most = 1 << 30) : jobs_(jobs), most_(most) {}
  void advance(std::int64_t units) override {
    EXPECT_EQ(std::this_thread::get_id(), mine_);
    done_ += units;
    if (done_ > most_) throw Cancelled();
  }
  int jobs() const override { return jobs_; }
  std::int64_t done() const { return done_; }

 private:
  int jobs_;
  std::int64_t most_, done_ = 0;
  std::thread::id mine_ = std::this_thread::get_id();
};

class Jobs : public testing::TestWithParam<int> {};

TEST_P(Jobs, ResultsAreKeptInOrderAndProgressAddsUp) {
  Counting progress(GetParam());
  std::vector<std::int64_t> kept;
  for_each_job(
      100, progress,
      [](std::int64_t i, Progress& own) {
        own.advance(3);
        return i * i;
      },
      [&](std::int64_t i, std::int64_t result) {
        EXPECT_EQ(result, i * i);
        kept.push_back(i);
      });
  std::vector<std::int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(kept, all);
  EXPECT_EQ(progress.done(), 300);
}

TEST_P(Jobs, NoMoreAreBegunThanTwiceAsManyAreWanted) {
  Counting progress(GetParam());
  std::atomic<std::int64_t> kept{0};
  for_each_job(
      60, progress,
      [&](std::int64_t i, Progress&) {
        EXPECT_LT(i, kept + 2 * GetParam());
        return i;
      },
      [&](std::int64_t, std::int64_t) { ++kept; });
  EXPECT_EQ(kept, 60);
}

TEST_P(Jobs, TheFirstThatFailsIsTold) {
  Counting progress(GetParam());
  std::int64_t kept = 0;
  try {
    for_each_job(
        50, progress,
        [](std::int64_t i, Progress& own) {
          own.advance(1);
          if (i >= 20) throw UsageError("turn " + std::to_string(i));
          return i;
        },
        [&](std::int64_t, std::int64_t) { ++kept; });
    FAIL() << "no exception";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "turn 20");
  }
  EXPECT_EQ(kept, 20);
}

TEST_P(Jobs, CancellingEndsThemAll) {
  Counting progress(GetParam(), 10);
  EXPECT_THROW(for_each_job(1 << 20, progress, [](std::int64_t, Progress& own) { own.advance(1); }),
               Cancelled);
}

TEST_P(Jobs, WhatIsKeptMayFail) {
  Counting progress(GetParam());
  EXPECT_THROW(for_each_job(
                   30, progress, [](std::int64_t i, Progress&) { return i; },
                   [](std::int64_t i, std::int64_t) {
                     if (i == 3) throw UsageError("kept");
                   }),
               UsageError);
}

TEST_P(Jobs, MultiplyOnOneThreadOfTheBlas) {
  const auto threads = blas_library().threads;
  if (threads == nullptr) GTEST_SKIP() << "this BLAS does not say";
  const int given = threads();
  blas_library().set_threads(2);
  const auto multiply = [] {
    std::vector<double> a(64 * 64, 1), b(a), c(a);
    gemm<double>(false, false, 64, 64, 64, 1, a.data(), 64, b.data(), 64, 0, c.data(), 64);
  };
  Counting progress(GetParam());
  for_each_job(8, progress, [&](std::int64_t, Progress&) {
    multiply();
    EXPECT_EQ(threads(), 1);
  });
  EXPECT_EQ(threads(), 2);
  multiply();
  EXPECT_EQ(threads(), 2);
  blas_library().set_threads(given);
}

INSTANTIATE_TEST_SUITE_P(Numbers, Jobs, testing::Values(1, 2, 5));

TEST(Jobs, RunOnThreadsOfTheirOwn) {
  Counting progress(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for_each_job(20, progress, [&](std::int64_t, Progress& own) {
    EXPECT_EQ(own.jobs(), 1);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  EXPECT_LE(threads.size(), 3U);
}

}  // namespace
}  // namespace regauge
