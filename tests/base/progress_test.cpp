#include "regauge/base/progress.h"

#include <gtest/gtest.h>

#include "regauge/base/error.h"
#include "regauge/base/version.h"

namespace regauge {
namespace {

class StopsAfterTen : public Progress {
 public:
  void advance(std::int64_t units) override {
    done_ += units;
    if (done_ > 10) throw Cancelled();
  }

 private:
  std::int64_t done_ = 0;
};

TEST(Progress, SilentAcceptsAnything) {
  Progress& progress = Progress::silent();
  progress.start("job", 3);
  progress.advance(4);
  progress.finish();
}

TEST(Progress, CancelsByThrowing) {
  StopsAfterTen progress;
  progress.advance(10);
  EXPECT_THROW(progress.advance(1), Cancelled);
}

TEST(Error, EveryErrorIsAnError) {
  EXPECT_THROW(throw FileError("x"), Error);
  EXPECT_THROW(throw UsageError("x"), Error);
  EXPECT_THROW(throw Cancelled(), Error);
}

TEST(Version, HasThreeNumbers) {
  int dots = 0;
  for (const char c : version()) dots += c == '.' ? 1 : 0;
  EXPECT_EQ(dots, 2);
}

}  // namespace
}  // namespace regauge
