// Experts are read, moved and written one by one, and come out as if all had been held together.
#include <gtest/gtest.h>

#include <algorithm>

#include "action/executor.h"
#include "arch/fixture.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using testing::fixture;

Matrix<double> slice_of(const ParameterSpec& spec, const Matrix<double>& all, std::int64_t slice) {
  const std::int64_t size = (spec.sliced_rows ? spec.rows : spec.cols) / spec.slices;
  return spec.sliced_rows ? Matrix<double>(all.middleRows(slice * size, size))
                          : Matrix<double>(all.middleCols(slice * size, size));
}

class Slices : public ::testing::TestWithParam<std::string> {
 protected:
  // use(spec) for every parameter that lies in slices.
  template <class Use>
  void for_each_sliced(Use use) const {
    int found = 0;
    for (const auto& spec : parameter_specs(model_.architecture)) {
      if (source_.slices(spec.name) == 1) continue;
      EXPECT_EQ(source_.slices(spec.name), spec.slices) << spec.name;
      ++found;
      use(spec);
    }
    EXPECT_GT(found, 2);
  }

  const Model model_ = Model::open(fixture(GetParam()));
  const ParameterSource source_{model_, model_.architecture};
};

TEST_P(Slices, AreReadByThemselves) {
  for_each_sliced([&](const ParameterSpec& spec) {
    const Matrix<double> all = source_.read<double>(spec.name);
    const Matrix<double> variances = source_.variances<double>(spec.name);
    const auto bounds = source_.bounds(spec.name);
    for (std::int64_t slice = 0; slice < spec.slices; ++slice) {
      EXPECT_EQ(source_.read<double>(spec.name, slice), slice_of(spec, all, slice)) << spec.name;
      EXPECT_EQ(source_.variances<double>(spec.name, slice), slice_of(spec, variances, slice));
      EXPECT_EQ(source_.bounds(spec.name, slice).above, slice_of(spec, bounds.above, slice));
    }
  });
}

TEST_P(Slices, AreWrittenByThemselves) {
  for_each_sliced([&](const ParameterSpec& spec) {
    const Matrix<double> all = source_.read<double>(spec.name);
    for (std::int64_t slice = 0; slice < spec.slices; ++slice) {
      const auto home = model_.layout.home(spec.name, slice);
      std::vector<double> alone(static_cast<std::size_t>(home.holder.slice_elements()));
      std::vector<double> from_all = alone;
      model_.layout.insert_slice<double>(spec.name, slice, slice_of(spec, all, slice), alone);
      model_.layout.insert_slice<double>(spec.name, slice, all, from_all);
      EXPECT_EQ(alone, from_all) << spec.name;
      const auto again = model_.layout.extract<double>(
          spec.name,
          [&](const Layout::Home& at, std::span<double> values) {
            EXPECT_EQ(at.holder.name, home.holder.name);
            EXPECT_EQ(at.slice, home.slice);
            std::copy(alone.begin(), alone.end(), values.begin());
          },
          slice);
      EXPECT_EQ(again, slice_of(spec, all, slice)) << spec.name;
    }
  });
}

TEST_P(Slices, AreMovedByThemselves) {
  const Symmetry symmetry = symmetry_of(model_.architecture);
  const Element element = random_element(symmetry, 3);
  const Plan plan = make_plan(symmetry, element);
  Executor executor(symmetry, element);
  int elsewhere = 0;
  for (const auto& layer : plan.layers) {
    executor.begin(
        layer, [&](const TensorPlan& tensor) { return source_.read<double>(tensor.spec.name); });
    for (const auto& tensor : layer.matrices) {
      const ParameterSpec& spec = tensor.spec;
      if (source_.slices(spec.name) == 1) continue;
      Matrix<double> all = source_.read<double>(spec.name);
      executor.transform(tensor, all);
      MovedMatrix<double> moved(spec.rows, spec.cols, {}, {});
      executor.transform(tensor, moved);
      const int axis = spec.sliced_rows ? 0 : 1;
      for (std::int64_t slice = 0; slice < spec.slices; ++slice) {
        Matrix<double> alone = source_.read<double>(spec.name, slice);
        const std::int64_t to = moved.replay_slice(axis, spec.slices, slice, alone);
        // But for the order of sums in a product.
        EXPECT_LT((alone - slice_of(spec, all, to)).norm(), 1e-13 * all.norm()) << spec.name;
        EXPECT_EQ(moved.source_of(axis, spec.slices, to), slice);
        elsewhere += to != slice ? 1 : 0;
      }
    }
  }
  EXPECT_GT(elsewhere, 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Slices,
                         ::testing::Values("qwen3_moe", "qwen3_moe-gguf", "gpt_oss", "mixtral",
                                           "deepseek_v3", "olmoe", "qwen2_moe", "glm4_moe"),
                         testing::test_name);

TEST(BlockMaps, KnowWhenSlicesDoNotStayTogether) {
  const BlockMap<double> map(6, 1, {4, 5, 3, 0, 1, 2}, {});
  EXPECT_THROW(map.target_slice(3, 1), UsageError);  // {2, 3} goes to {3, 0}
  EXPECT_THROW(map.in_slice(3, 1), UsageError);
  EXPECT_THROW(map.target_slice(4, 0), UsageError);  // no equal slices
  EXPECT_EQ(map.target_slice(3, 0), 2);
  EXPECT_TRUE(map.in_slice(3, 0).is_identity());
}

}  // namespace
}  // namespace regauge
