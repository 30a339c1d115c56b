// The dimension of symmetry_of for encoders of texts, pictures and proteins.
#include <gtest/gtest.h>

#include "against_calculus.h"
#include "architectures.h"
#include "calculus.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {
namespace {

using testing::expect_the_calculus;
using testing::table_takes_up_its_norm;

TEST(Dimension, EqualsTheCalculusWhereTheFirstAttentionIsBare) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture architecture = bare_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 100);
}

// The nullity of the Jacobian of transformers' own ModernBERT at these sizes, and with as many
// tokens.
TEST(Dimension, IsWhatWasMeasuredOnModernBert) {
  EXPECT_EQ(symmetry_of(modernbert_architecture(30, 2, false)).dimension(), 286);
}

TEST(Dimension, EqualsTheCalculusOfEncoders) {
  int compared = 0, both = 0, shared = 0, transforms = 0, rotating = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Architecture architecture = encoder_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    both += architecture.has_position_table() && !architecture.plain_stream() ? 1 : 0;
    shared += architecture.kinds.back().attention.shares_table ? 1 : 0;
    transforms += architecture.head_transform && architecture.plain_stream() ? 1 : 0;
    const Space* stream = symmetry_of(architecture).find_space("residual");
    const bool turns = stream != nullptr && stream->is_orthogonal();
    rotating += turns && architecture.head_transform ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 170);
  EXPECT_GT(std::min({both, shared, transforms, rotating}), 15);
}

// 8 buckets: 0, 1, 2 and 3 before, 4 (never read), 5, 6 and 7 after. Of 3 positions no distance is
// in the buckets 3 and 7: two rows more that nothing reads, of two heads each.
TEST(Dimension, APositionTableBoundsDistances) {
  const Architecture many = mpnet_architecture(2, 12), few = mpnet_architecture(2, 3);
  expect_the_calculus(many, 1);
  expect_the_calculus(few, 1);
  const auto table = [](const Architecture& a) {
    std::int64_t rows = 0;
    for (const auto& shift : symmetry_of(a).shifts) {
      rows += shift.name.find("unreached") != std::string::npos ? 1 : 0;
    }
    return rows;
  };
  EXPECT_EQ(table(many), 1);
  EXPECT_EQ(table(few), 3);
}

// The nullity of the Jacobian of transformers' own DINOv2 at these sizes (theory2.md, section 11).
TEST(Dimension, IsWhatWasMeasuredOnDinov2) {
  const Architecture plain = dinov2_architecture(2, 0, false);
  const Architecture gated = dinov2_architecture(1, 2, true);
  EXPECT_EQ(parameter_count(plain), 703);
  EXPECT_EQ(parameter_count(gated), 509);
  EXPECT_EQ(symmetry_of(plain).dimension(), 295);
  EXPECT_EQ(symmetry_of(gated).dimension(), 195);
  expect_the_calculus(plain, 1);
  expect_the_calculus(gated, 1);
  EXPECT_EQ(calculus(plain, 1, Mistake::layer_scale_forgotten).dimension, 295 - 2 * 2 * 6);
  EXPECT_EQ(calculus(gated, 1, Mistake::registers_forgotten).dimension, 195 + 2 * 5);
}

TEST(Dimension, EqualsTheCalculusOfPicturesAndProteins) {
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    expect_the_calculus(vision_architecture(seed), seed);
    if (seed < 60) expect_the_calculus(protein_architecture(seed), seed);
  }
}

// The nullity of the Jacobian of transformers' own DINOv3 at these sizes (theory2.md, section 11).
TEST(Dimension, IsWhatWasMeasuredOnDinov3) {
  EXPECT_EQ(parameter_count(dinov3_architecture(false)), 1041);
  EXPECT_EQ(parameter_count(dinov3_architecture(true)), 1126);
  EXPECT_EQ(symmetry_of(dinov3_architecture(false)).dimension(), 324);
  EXPECT_EQ(symmetry_of(dinov3_architecture(true)).dimension(), 295);
}

// The same of transformers' own BEiT, DeiT and ESM: tests/symmetry/architectures.h has the sizes.
TEST(Dimension, IsWhatWasMeasuredOnBeitDeitAndEsm) {
  EXPECT_EQ(parameter_count(beit_architecture(2, false, true)), 739);
  EXPECT_EQ(symmetry_of(beit_architecture(2, false, true)).dimension(), 283);
  EXPECT_EQ(parameter_count(beit_architecture(3, true, false)), 997);
  EXPECT_EQ(symmetry_of(beit_architecture(3, true, false)).dimension(), 393);
  EXPECT_EQ(symmetry_of(beit_architecture(2, false, false)).dimension(), 299);
  EXPECT_EQ(parameter_count(deit_architecture(true)), 740);
  EXPECT_EQ(symmetry_of(deit_architecture(true)).dimension(), 285);
  EXPECT_EQ(parameter_count(deit_architecture(false)), 684);
  EXPECT_EQ(symmetry_of(deit_architecture(false)).dimension(), 255);
  EXPECT_EQ(parameter_count(esm_architecture(true, true)), 1205);
  EXPECT_EQ(symmetry_of(esm_architecture(true, true)).dimension(), 281);
  EXPECT_EQ(parameter_count(esm_architecture(false, true)), 1445);
  EXPECT_EQ(symmetry_of(esm_architecture(false, true)).dimension(), 376);
}

}  // namespace
}  // namespace regauge
