// Wide models, whose layers are looked at through a frame.
#include "equivalence/recover/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "regauge/action/rewrite.h"
#include "regauge/equivalence/diff.h"
#include "symmetry/architectures.h"
#include "temporary.h"

namespace regauge {
namespace {

using testing::Temporary;

Architecture in_more_width(Architecture shape) {
  shape.width = 96;
  shape.vocabulary = 120;
  shape.kinds[0].ffn.width = 50;
  return shape;
}

Diff rewritten(const Architecture& shape, const Temporary& folder, DType dtype, bool damaged) {
  auto parameters = random_parameters(shape, 3);
  write_parameters<double>(folder / "a", "regauge", Format::safetensors, shape, parameters, dtype);
  if (damaged) {
    Matrix<double>& tensor = parameters.at("layers.1.ffn.down.weight");
    tensor(7, 50) += 0.01 * tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
  }
  write_parameters<double>(folder / "b", "regauge", Format::safetensors, shape, parameters, dtype);
  const Model a = Model::open(folder / "a"), b = Model::open(folder / "b");
  const ParameterSource source(b, shape);
  const Symmetry symmetry = symmetry_of(shape);
  const Element element = random_element(symmetry, 5);
  Rewrite(source, symmetry, element, Rewrite::same_as(b)).run(folder / "c", Progress::silent());
  return diff(a, Model::open(folder / "c"), Progress::silent());
}

TEST(Frame, IsUsedFromSomeWidthOn) {
  const Architecture narrow = known_architectures().front().architecture;
  const Symmetry of_narrow = symmetry_of(narrow), of_wide = symmetry_of(in_more_width(narrow));
  EXPECT_TRUE(Frame(of_narrow).is_whole());
  EXPECT_FALSE(Frame(of_wide).is_whole());
}

TEST(Frame, IsEnoughToFindAnElement) {
  int number = 0;
  for (const auto& known : known_architectures()) {
    const Temporary folder("frame-" + std::to_string(number++));
    const Diff result = rewritten(in_more_width(known.architecture), folder, DType::f32, false);
    EXPECT_EQ(result.verdict, Verdict::same) << known.name;
  }
}

TEST(Frame, IsEnoughInSixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Temporary folder("frame-" + std::string(dtype_name(dtype)));
    const Architecture shape = in_more_width(known_architectures().front().architecture);
    EXPECT_EQ(rewritten(shape, folder, dtype, false).verdict, Verdict::same);
  }
}

TEST(Frame, DoesNotHideOneWeight) {
  const Temporary folder("frame-damaged");
  const Architecture shape = in_more_width(known_architectures().front().architecture);
  const Diff result = rewritten(shape, folder, DType::f32, true);
  EXPECT_EQ(result.verdict, Verdict::perturbed);
  const auto worst = std::max_element(
      result.residuals.begin(), result.residuals.end(),
      [](const TensorResidual& a, const TensorResidual& b) { return a.excess < b.excess; });
  EXPECT_EQ(worst->tensor, "layers.1.ffn.down.weight");
}

}  // namespace
}  // namespace regauge
