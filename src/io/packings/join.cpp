#include "join.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "methods.h"
#include "unread.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr const char* kSettings = "quantization_config";
constexpr const char* kMlx = "quantization";

struct Method {
  std::string_view name;  // quant_method of the config
  void (*join)(const json& settings, Joiner& joiner);
};
constexpr std::array kMethods = {Method{"fp8", join_fp8},
                                 Method{"fbgemm_fp8", join_fp8},
                                 Method{"compressed-tensors", join_compressed_tensors},
                                 Method{"gptq", join_gptq},
                                 Method{"awq", join_awq},
                                 Method{"mxfp4", join_mxfp4},
                                 Method{"bitsandbytes", join_bitsandbytes},
                                 Method{"modelopt", join_modelopt}};

const json* object_at(const json& config, const char* key) {
  if (!config.is_object()) return nullptr;
  const auto found = config.find(key);
  return found != config.end() && found->is_object() ? &*found : nullptr;
}

std::string unknown(const std::string& name) {
  std::string known = "MLX's";
  for (const Method& method : kMethods) known += fmt::format(", {}", method.name);
  return fmt::format(
      "[config] weights quantised by '{}' are not read (read are: {}); let its tool "
      "dequantise the model (transformers: model.dequantize()), save that and name it",
      name, known);
}

}  // namespace

void join_packed(json& config, std::vector<StoredTensor>& tensors, BytesOf bytes) {
  Joiner joiner(tensors, std::move(bytes));
  if (const json* mlx = object_at(config, kMlx)) {
    join_mlx(*mlx, joiner);
    config.erase(kMlx);
    config.erase(kSettings);
  } else if (const json* settings = object_at(config, kSettings)) {
    const json name = settings->value("quant_method", json());
    const auto* method = std::find_if(kMethods.begin(), kMethods.end(),
                                      [&](const Method& known) { return name == known.name; });
    if (!name.is_string()) return;  // no quantiser's, or of an older tool: the family refuses it
    if (method == kMethods.end()) {
      join_unread(name.get<std::string>(), unknown(name.get<std::string>()), joiner);
    } else {
      method->join(*settings, joiner);
    }
    config.erase(kSettings);
  } else {
    join_fp8(json(), joiner);  // its names say all
  }
  tensors = std::move(joiner).joined();
}

}  // namespace regauge::io
