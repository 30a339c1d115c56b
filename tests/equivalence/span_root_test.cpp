#include <gtest/gtest.h>

#include "equivalence/recover/probe.h"

namespace regauge {
namespace {

// The largest column twice, and one that is a combination of two others.
TEST(SpanRoot, SeesTheRankWhateverColumnsAreEqual) {
  Random random(1, "span root");
  Matrix<double> columns(40, 16);
  for (auto& entry : columns.reshaped()) entry = random.normal();
  columns.col(3) *= 5;
  columns.col(9) = columns.col(3);
  columns.col(12) = columns.col(0) - 2 * columns.col(5);
  const Matrix<double> root = span_root(columns);
  ASSERT_EQ(root.cols(), 14);
  const Matrix<double> basis = columns * root;
  EXPECT_LT((basis.transpose() * basis - Matrix<double>::Identity(14, 14)).norm(), 1e-10);
  EXPECT_LT((columns - basis * (basis.transpose() * columns)).norm(), 1e-10);
}

}  // namespace
}  // namespace regauge
