// Where embedding and head tell little of the stream, or not all tokens count.
#include <gtest/gtest.h>

#include "regauge/equivalence/certificate.h"
#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

using testing::report;

class Anchors : public ::testing::Test {
 protected:
  Model write(const Architecture& shape, const Parameters<double>& parameters,
              DType dtype = DType::f32) {
    return files_.write(shape, parameters, dtype);
  }

  static Parameters<double> moved(const Architecture& shape, Parameters<double> parameters,
                                  std::uint64_t seed = 9) {
    return testing::moved(shape, std::move(parameters), seed);
  }

  testing::Written files_{"anchors"};
};

Architecture with_more_heads(Architecture a) {
  a.width = 24;
  a.kinds[0].attention.heads = 6;
  a.kinds[0].attention.kv_heads = 3;
  a.kinds[0].ffn.width = 32;
  a.norm_eps = 1e-6;
  return a;
}

TEST_F(Anchors, FewerThanTheStreamIsWide) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& known : known_architectures()) {
      Architecture shape = with_more_heads(known.architecture);
      shape.vocabulary = 5;
      const auto original = random_parameters(shape, 1);
      const Model a = write(shape, original, dtype);
      const Diff result =
          diff(a, write(shape, moved(shape, read_parameters(a)), dtype), Progress::silent());
      EXPECT_EQ(result.verdict, Verdict::same)
          << known.name << " " << dtype_name(dtype) << ": " << report(result);

      auto changed = original;
      Matrix<double>& tensor = changed.at("layers.1.attn.v.weight");
      tensor.col(0) *= 1.2;
      const Diff other = diff(a, write(shape, moved(shape, changed), dtype), Progress::silent());
      EXPECT_NE(other.verdict, Verdict::same) << known.name;
    }
  }
}

TEST_F(Anchors, ASmallViewOfImages) {
  Architecture shape = with_more_heads(known_architectures().front().architecture);
  shape.position_table = PositionTable::learned;
  shape.kinds[0].attention.positions = Positions::none;
  shape.kinds[0].attention.rotary_dims = 0;
  shape.kinds[0].attention.rotary_frequencies.clear();
  shape.input = Input::vectors;
  shape.vocabulary = 0;
  shape.input_width = 4;
  shape.max_positions = 5;
  shape.class_token = true;
  shape.causal = false;
  shape.output = Output::classes;
  shape.classes = 3;
  for (const Norm norm : {Norm::rms, Norm::layer}) {
    shape.norm = norm;
    const auto original = random_parameters(shape, 1);
    const Diff result =
        diff(write(shape, original), write(shape, moved(shape, original)), Progress::silent());
    EXPECT_EQ(result.verdict, Verdict::same) << report(result);
  }
}

// Nothing reads or writes some directions of the stream.
TEST_F(Anchors, AStreamThatIsNotFilled) {
  Architecture shape = with_more_heads(known_architectures().front().architecture);
  auto original = random_parameters(shape, 1);
  for (auto& [name, tensor] : original) {
    if (tensor.rows() == 1) continue;
    const bool writes =
        name == "embed.tokens" || name.ends_with("o.weight") || name.ends_with("down.weight");
    if (writes) {
      tensor.rightCols(10).setZero();
    } else {
      tensor.bottomRows(10).setZero();
    }
  }
  const Model a = write(shape, original);
  const Diff result = diff(a, write(shape, moved(shape, original)), Progress::silent());
  EXPECT_EQ(result.verdict, Verdict::same) << report(result);
  original.at("layers.0.ffn.up.weight")(20, 3) = 0.01;
  EXPECT_NE(diff(a, write(shape, moved(shape, original)), Progress::silent()).verdict,
            Verdict::same);
}

TEST_F(Anchors, APaddedVocabulary) {
  for (const auto& known : known_architectures()) {
    Architecture shape = with_more_heads(known.architecture);
    shape.vocabulary = 30;
    const auto original = random_parameters(shape, 1);
    const Model a = write(shape, original);
    Architecture padded = shape;
    padded.vocabulary = 32;
    auto larger = random_parameters(padded, 2);
    for (const auto& [name, tensor] : original) {
      larger.at(name).topLeftCorner(tensor.rows(), tensor.cols()) = tensor;
    }
    const Model b = write(padded, moved(padded, larger));
    const Diff result = diff(a, b, Progress::silent());
    // Two more tokens get a share of the softmax: what both have agrees, and that is not the same.
    EXPECT_EQ(result.verdict, Verdict::undecided) << known.name << ": " << report(result);
    EXPECT_TRUE(all_agree(result.residuals)) << known.name << ": " << report(result);
    EXPECT_TRUE(std::any_of(result.reasons.begin(), result.reasons.end(), [](const auto& reason) {
      return reason.find("2 tokens more") != std::string::npos;
    })) << report(result);
    const auto path = files_.fresh().concat(".safetensors");
    save_certificate(symmetry_of(result.architecture),
                     {result.a_from_b, fingerprint(a, Progress::silent()),
                      fingerprint(b, Progress::silent()), result.residuals},
                     path);
    EXPECT_FALSE(verify(a, b, path, Progress::silent()).holds());
    // A row that both have is no padding.
    larger.at("embed.tokens").row(29) *= 1.01;
    EXPECT_NE(diff(a, write(padded, moved(padded, larger)), Progress::silent()).verdict,
              Verdict::same);
  }
}

// Declared with a tie and no biases on one side, written out on the other.
TEST_F(Anchors, WhatOneSideLeavesOut) {
  Architecture shape = with_more_heads(known_architectures().front().architecture);
  shape.vocabulary = 30;
  shape.tied = true;
  const auto original = random_parameters(shape, 1);
  Architecture full = shape;
  full.tied = false;
  full.kinds[0].attention.biases = {true, true, true, true};
  full.kinds[0].ffn.biases = {false, true, true};
  full.head_bias = true;
  auto written_out = random_parameters(full, 2);
  for (auto& [name, tensor] : written_out) {
    if (original.contains(name)) {
      tensor = original.at(name);
    } else if (name == "head.weight") {
      tensor = original.at("embed.tokens").transpose();
    } else {
      tensor.setZero();
    }
  }
  const Model a = write(shape, original, DType::bf16);
  const Diff result = diff(a, write(full, moved(full, written_out)), Progress::silent());
  EXPECT_EQ(result.verdict, Verdict::same) << report(result);
  EXPECT_FALSE(result.declarations.empty());
}

}  // namespace
}  // namespace regauge
