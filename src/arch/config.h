#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "family.h"
#include "regauge/arch/architecture.h"

namespace regauge {

// What a config's reader may ask of the tensors beside it.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const std::vector<std::int64_t>* shape(
      std::string_view name) const = 0;  // nullptr: no such tensor
  virtual std::vector<double> values(std::string_view name) const = 0;
};

using Variables = std::map<std::string, double>;

// An architecture as a config declares it, with the family's variables (patch sizes and such).
struct Declared {
  Architecture architecture;
  Variables variables;
  std::map<std::string, std::string> not_understood;  // as in Model
  std::vector<Variables> variables_beside = {};       // of the model beside
};

// Throws UsageError with every problem at once, one per line.
Declared read_config(const Family& family, const nlohmann::json& config,
                     const TensorSource& tensors);

// The family's variables for an architecture: from `base` where it has them, else solved for or at
// their defaults.
Variables solve_variables(const Family& family, const Architecture& architecture,
                          const nlohmann::json& base);

// `base` changed so that it declares the architecture as far as the family can; read_config tells
// how far that is.
nlohmann::json write_config(const Family& family, const Architecture& architecture,
                            const nlohmann::json& base);

// The config with the objects that count in the place of those for which they stand.
nlohmann::json with_stand_ins(const Family& family, const nlohmann::json& config);

// Every field in which two architectures differ: "tied: true / false".
std::vector<std::string> differences(const Architecture& wanted, const Architecture& found);

}  // namespace regauge
