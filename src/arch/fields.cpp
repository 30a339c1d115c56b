#include "fields.h"

#include <algorithm>

namespace regauge {
namespace {

using Json = nlohmann::json;

}  // namespace

namespace {
constexpr const char* kBiasNames[] = {"q", "k", "v", "o", "gate", "up", "down", "head"};
constexpr const char* kFurtherOutputs[] = {"classes", "hidden", "pooled"};
}  // namespace

Json flat_fields(const Architecture& architecture) {
  Json fields = complete_json(architecture);
  // One output is the model's, by the order of their names above; the others are flags.
  const Json outputs = fields.at("output");
  fields["output"] = outputs.is_array() ? outputs.front() : outputs;
  for (const char* name : kFurtherOutputs) {
    const std::string key = std::string("outputs.") + name;
    fields[key] = outputs.is_array() && outputs.front() != name &&
                  std::ranges::find(outputs, name) != outputs.end();
  }
  const Json present = fields.at("biases");
  fields.erase("biases");
  for (const char* name : kBiasNames) fields[std::string("biases.") + name] = false;
  for (const auto& name : present) fields["biases." + name.get<std::string>()] = true;
  return fields;
}

Architecture architecture_from_flat(const Json& flat) {
  Json fields = flat;
  Json present = Json::array();
  for (const char* name : kBiasNames) {
    const std::string key = std::string("biases.") + name;
    if (fields.value(key, false)) present.push_back(name);
    fields.erase(key);
  }
  fields["biases"] = present;
  Json outputs = Json::array({fields.value("output", Json("tokens"))});
  for (const char* name : kFurtherOutputs) {
    const std::string key = std::string("outputs.") + name;
    if (fields.value(key, false)) outputs.push_back(name);
    fields.erase(key);
  }
  fields["output"] = outputs;
  return unchecked_from_json(fields);
}

}  // namespace regauge
