#include "io/file_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "regauge/base/error.h"

namespace regauge {
namespace {

TEST(FileLock, IsHeldByOneAtATime) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "regauge_file_lock";
  std::optional<FileLock> first(path);
  EXPECT_TRUE(first->held());
  EXPECT_FALSE(FileLock(path).held());
  first.reset();
  EXPECT_TRUE(FileLock(path).held());
}

TEST(FileLock, NeedsAFolder) { EXPECT_THROW(FileLock("/nowhere/at/all"), FileError); }

}  // namespace
}  // namespace regauge
