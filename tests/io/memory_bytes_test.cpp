#include "io/memory_bytes.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <vector>

#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

class MadeTensor : public ::testing::Test {
 protected:
  // Four numbers, counted whenever they are made, and whether anyone has them still.
  Checkpoint checkpoint(std::size_t bytes = 16) {
    const auto make = [this, bytes] {
      ++made_;
      const auto numbers = std::make_shared<std::vector<std::byte>>(bytes);
      held_ = numbers;
      return Bytes(*numbers, numbers);
    };
    return Checkpoint::in_memory({}, {{"x", DType::f32, {4}, {}, nullptr, make}});
  }

  int made_ = 0;
  std::weak_ptr<std::vector<std::byte>> held_;
};

TEST_F(MadeTensor, IsMadeOnceForAPassAndDroppedBehindIt) {
  const Checkpoint made = checkpoint();
  EXPECT_EQ(made_, 0);
  const StoredTensor& tensor = made.at("x");
  for (int pass = 1; pass <= 2; ++pass) {
    const Numbers all = made.numbers(tensor);
    std::vector<std::byte> buffer;
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(all.range(i, 1).bytes_in(buffer).size(), 4U);
      if (i < 3) made.release(tensor);
      EXPECT_FALSE(held_.expired());
    }
    EXPECT_EQ(made_, pass);
    made.release(tensor);
    EXPECT_TRUE(held_.expired());
  }
}

TEST_F(MadeTensor, OfAnotherLengthIsRefused) {
  const Checkpoint made = checkpoint(12);
  std::vector<double> values(4);
  EXPECT_THROW(made.numbers(made.at("x")).decode<double>(values), UsageError);
}

}  // namespace
}  // namespace regauge
