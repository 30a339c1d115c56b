#include "join.h"

#include <nlohmann/json.hpp>

#include <array>
#include <string_view>

#include "fp8.h"
#include "joiner.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr const char* kSettings = "quantization_config";

struct Method {
  std::string_view name;  // quant_method of the config
  void (*join)(const json& settings, Joiner& joiner);
};
constexpr std::array<Method, 2> kMethods = {{{"fp8", join_fp8}, {"fbgemm_fp8", join_fp8}}};

}  // namespace

void join_packed(json& config, std::vector<StoredTensor>& tensors) {
  Joiner joiner(tensors);
  const bool declared =
      config.is_object() && config.contains(kSettings) && config[kSettings].is_object();
  if (!declared) {
    join_fp8(json(), joiner);  // its names say all
  } else {
    const std::string name = config[kSettings].value("quant_method", json()).is_string()
                                 ? config[kSettings]["quant_method"].get<std::string>()
                                 : "";
    const auto* method = std::find_if(kMethods.begin(), kMethods.end(),
                                      [&](const Method& known) { return known.name == name; });
    if (method == kMethods.end()) return;
    method->join(config[kSettings], joiner);
    config.erase(kSettings);
  }
  tensors = std::move(joiner).joined();
}

}  // namespace regauge::io
