// What transformers computes with a checkpoint is what the architecture and the parameters that
// were read from it say: the one test that a wrong pairing, orientation, scale or tie cannot pass.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "fixture.h"
#include "forward.h"

namespace regauge {
namespace {

using testing::fixture;

nlohmann::json reference(const std::string& name) {
  std::ifstream file(std::filesystem::path(REGAUGE_FIXTURES) / name / "reference.json");
  return nlohmann::json::parse(file);
}

// Patches from left to right, top to bottom; each is channels x rows x columns.
Matrix<double> patches(const nlohmann::json& image, Eigen::Index patch) {
  const auto channels = static_cast<Eigen::Index>(image.size());
  const auto side = static_cast<Eigen::Index>(image[0].size()) / patch;
  Matrix<double> rows(side * side, channels * patch * patch);
  for (Eigen::Index n = 0; n < side * side; ++n) {
    for (Eigen::Index j = 0; j < rows.cols(); ++j) {
      const Eigen::Index c = j / (patch * patch), y = j / patch % patch, x = j % patch;
      rows(n, j) =
          image[static_cast<std::size_t>(c)][static_cast<std::size_t>(n / side * patch + y)]
               [static_cast<std::size_t>(n % side * patch + x)];
    }
  }
  return rows;
}

Matrix<double> numbers(const nlohmann::json& list) {
  Matrix<double> tokens(static_cast<Eigen::Index>(list.size()), 1);
  for (Eigen::Index t = 0; t < tokens.rows(); ++t) {
    tokens(t, 0) = list[static_cast<std::size_t>(t)];
  }
  return tokens;
}

Matrix<double> rows_of(nlohmann::json rows) {
  if (!rows[0].is_array()) rows = nlohmann::json::array({rows});
  Matrix<double> matrix(static_cast<Eigen::Index>(rows.size()),
                        static_cast<Eigen::Index>(rows[0].size()));
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    for (Eigen::Index j = 0; j < matrix.cols(); ++j) {
      matrix(i, j) = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    }
  }
  return matrix;
}

Matrix<double> input_of(const nlohmann::json& given) {
  if (given.contains("samples")) return numbers(given["samples"]);
  return given.contains("tokens") ? numbers(given["tokens"]) : patches(given["image"], 4);
}

// What an encoder reads, or the model beside.
Matrix<double> source_of(const nlohmann::json& given) {
  if (given.contains("frames")) return rows_of(given["frames"]);
  if (given.contains("source")) return numbers(given["source"]);
  return given.contains("tokens") && given.contains("image") ? patches(given["image"], 4)
                                                             : Matrix<double>();
}

double distance(const Architecture& architecture, const Parameters<double>& parameters,
                const nlohmann::json& given) {
  const Matrix<double> output = rows_of(given["output"]);
  return (testing::forward(architecture, parameters, input_of(given), source_of(given)) - output)
             .norm() /
         output.norm();
}

class EveryReference : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryReference, ComputesWhatTransformersComputes) {
  const Model model = Model::open(fixture(GetParam()));
  EXPECT_LT(distance(model.architecture, read_parameters(model), reference(GetParam())), 1e-5);
}

std::vector<std::string> with_reference() {
  std::vector<std::string> names;
  for (const auto& name : testing::fixture_names()) {
    if (!name.ends_with("-gguf")) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryReference, ::testing::ValuesIn(with_reference()),
                         testing::test_name);

// The test has teeth: the classic silent mistakes move the output far.
TEST(Reference, SilentMistakesShow) {
  const Model llama = Model::open(fixture("llama"));
  Parameters<double> parameters = read_parameters(llama);
  Matrix<double>& q = parameters.at("layers.0.attn.q.weight");
  q.col(1).swap(q.col(2));  // a wrong pairing in one head
  EXPECT_GT(distance(llama.architecture, parameters, reference("llama")), 1e-3);

  const Model gemma = Model::open(fixture("gemma"));
  parameters = read_parameters(gemma);
  parameters.at("layers.1.attn.norm.gain").array() -= 1;  // read without the offset
  EXPECT_GT(distance(gemma.architecture, parameters, reference("gemma")), 1e-3);
}

}  // namespace
}  // namespace regauge
