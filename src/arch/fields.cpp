#include "fields.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

}  // namespace

namespace {
constexpr const char* kBiasNames[] = {"q", "k", "v", "o", "gate", "up", "down", "head"};
}  // namespace

Json flat_fields(const Architecture& architecture) {
  Json fields = all_fields(architecture);
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
  return unchecked_from_json(fields);
}

}  // namespace regauge
