// Tables of layers that read text alone: what they take up is no element of the group.
#include <gtest/gtest.h>

#include <cmath>

#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

using testing::report;
using testing::Written;

Architecture reads_text(bool vectors) {
  Architecture a = gemma4_small_architecture({.width = 20, .vocabulary = 60, .table_width = 5});
  a.norm_eps = 1e-6;
  if (vectors) a.input_width = 9;
  return a;
}

// What each token has of a layer's table, but for a common factor: theory.md, section 1a.
Matrix<double> rows_of_tokens(const Architecture& shape, const Parameters<double>& p,
                              const std::string& at) {
  Matrix<double> own = p.at("embed.tokens") * p.at(at + "map.weight") * shape.embedding_scale /
                       std::sqrt(static_cast<double>(shape.width));
  const auto r = static_cast<double>(shape.table_width);
  for (Eigen::Index v = 0; v < own.rows(); ++v) {
    own.row(v) /= std::sqrt(own.row(v).squaredNorm() / r + shape.norm_eps);
    own.row(v).array() *= p.at("embed.tables.norm.gain").row(0).array();
  }
  return own + std::sqrt(r) * p.at(at + "tokens");
}

// Another map and another gain, and tables that take up the difference.
Parameters<double> taken_up(const Architecture& shape, const Parameters<double>& before) {
  Parameters<double> after = before;
  after.at("embed.tables.norm.gain") *= 1.3;
  for (std::int64_t n = 0; n < shape.layers; ++n) {
    const std::string at = "layers." + std::to_string(n) + ".table.";
    after.at(at + "map.weight").row(0) *= 2;
    const Matrix<double> lost =
        rows_of_tokens(shape, before, at) - rows_of_tokens(shape, after, at);
    after.at(at + "tokens") += lost / std::sqrt(static_cast<double>(shape.table_width));
  }
  return after;
}

Diff compared(const Architecture& shape, const Parameters<double>& a, const Parameters<double>& b) {
  Written files("tables");
  return diff(files.write(shape, a, DType::f32), files.write(shape, b, DType::f32),
              Progress::silent());
}

TEST(Tables, WhatTheyTakeUpIsNotCalledAnotherModel) {
  const Architecture shape = reads_text(false);
  const auto parameters = random_parameters(shape, 3);
  const auto other = taken_up(shape, parameters);
  const Diff found = compared(shape, parameters, other);
  EXPECT_EQ(found.verdict, Verdict::undecided) << report(found);
  EXPECT_NE(report(found).find("takes up"), std::string::npos) << report(found);
  const Diff turned = compared(shape, parameters, testing::moved(shape, other, 4));
  EXPECT_EQ(turned.verdict, Verdict::undecided) << report(turned);
}

// A token that has something else is seen, and so is such a change where vectors read the map.
TEST(Tables, AnotherTableIsAnotherModel) {
  const Architecture shape = reads_text(false);
  const auto parameters = random_parameters(shape, 3);
  auto other = taken_up(shape, parameters);
  other.at("layers.1.table.tokens").row(7) *= 1.1;
  const Diff found = compared(shape, parameters, other);
  EXPECT_EQ(found.statement, Statement::not_the_same) << report(found);
  const Architecture with_vectors = reads_text(true);
  const auto beside = random_parameters(with_vectors, 3);
  const Diff seen = compared(with_vectors, beside, taken_up(with_vectors, beside));
  EXPECT_EQ(seen.statement, Statement::not_the_same) << report(seen);
}

}  // namespace
}  // namespace regauge
