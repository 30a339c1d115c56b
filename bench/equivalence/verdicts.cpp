// What diff says of many pairs, without looking for causes: a line "A<tab>B" of standard input is
// answered by a line of JSON. For limits.py and honest_pairs.py.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <iostream>
#include <string>

#include "regauge/equivalence/diff.h"

namespace {

nlohmann::json answer(const std::string& a, const std::string& b) {
  using namespace regauge;
  const Diff found = diff(Model::open(a), Model::open(b), Progress::silent());
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorResidual& tensor : found.residuals) {
    tensors.push_back({{"tensor", tensor.tensor},
                       {"size", tensor.size},
                       {"residual", tensor.residual},
                       {"rounding", tensor.rounding},
                       {"excess", tensor.excess},
                       {"stands_out", tensor.standing_out},
                       {"relation", relation_name(tensor.relation)},
                       {"agrees", tensor.agrees()}});
  }
  return {{"verdict", verdict_name(found.verdict)},
          {"statement", statement_name(found.statement)},
          {"identity", found.a_from_b.is_identity()},
          {"reasons", found.reasons},
          {"tensors", std::move(tensors)}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t tab = line.find('\t');
    nlohmann::json said;
    try {
      said = answer(line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1));
    } catch (const std::exception& error) {
      said = {{"error", error.what()}};
    }
    std::cout << said.dump() << std::endl;  // one answer at a time
  }
}
