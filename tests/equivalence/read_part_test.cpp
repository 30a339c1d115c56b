// Behind a norm whose bias hardly passes as a constant, maps are known badly where nobody reads
// them: such models are recognised, and a change that is read is told.
#include <gtest/gtest.h>

#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

constexpr const char* kNorm = "layers.1.ffn.norm";
constexpr const char* kReader = "layers.1.ffn.up.weight";

// sum(bias/gain) is a thousandth of sum|bias/gain|.
Parameters<double> hardly_passing(const Architecture& shape) {
  auto parameters = random_parameters(shape, 11);
  const Matrix<double>& gain = parameters.at(std::string(kNorm) + ".gain");
  Matrix<double>& bias = parameters.at(std::string(kNorm) + ".bias");
  Matrix<double> over = bias.cwiseQuotient(gain);
  over.array() += 1e-3 * over.cwiseAbs().mean() - over.mean();
  bias = over.cwiseProduct(gain);
  return parameters;
}

class HardlyPassing : public ::testing::Test {
 protected:
  Diff moved_diff(const Parameters<double>& changed, DType dtype, std::uint64_t seed) {
    return diff(files_.write(shape_, original_, dtype),
                files_.write(shape_, testing::moved(shape_, changed, seed), dtype),
                Progress::silent());
  }

  const Architecture shape_ = widened(known_architecture("layer norm, gelu, rotary"));
  const Parameters<double> original_ = hardly_passing(shape_);
  testing::Written files_{"read-part"};
};

TEST_F(HardlyPassing, IsRecognised) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Diff result = moved_diff(original_, dtype, seed);
      EXPECT_EQ(result.verdict, Verdict::same) << seed << ": " << testing::report(result);
    }
  }
}

TEST_F(HardlyPassing, WhatIsReadIsCompared) {
  auto changed = original_;
  Matrix<double>& reader = changed.at(kReader);
  reader(3, 2) += 0.02 * reader.norm() / std::sqrt(static_cast<double>(reader.size()));
  EXPECT_NE(moved_diff(changed, DType::f32, 1).verdict, Verdict::same);
}

TEST_F(HardlyPassing, TheConstantIsCompared) {
  const Matrix<double>& gain = original_.at(std::string(kNorm) + ".gain");
  const Matrix<double> over = original_.at(std::string(kNorm) + ".bias").cwiseQuotient(gain);
  auto changed = original_;
  Matrix<double>& reader = changed.at(kReader);
  // Along 1/gain the normed stream meets nothing, and the bias its sum.
  const Matrix<double> constant = 0.02 * original_.at(std::string(kNorm) + ".bias") * reader;
  reader += gain.cwiseInverse().transpose() * constant / over.sum();
  EXPECT_NE(moved_diff(changed, DType::f32, 1).verdict, Verdict::same);
}

}  // namespace
}  // namespace regauge
