#include "regauge/arch/apart.h"

#include <nlohmann/json.hpp>

#include "family.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

void collect(const Family& family, const Json& object, const std::string& prefix,
             std::map<std::string, std::string>& keys) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    if (is_apart_key(family, path)) {
      keys[path] = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    } else if (value.is_object()) {
      collect(family, value, path + "/", keys);
    }
  }
}

}  // namespace

Apart apart_of(const Model& model) {
  Apart apart;
  if (model.checkpoint.config().is_null()) return apart;
  const Family& family = family_of(model.layout.family(), model.layout.format());
  for (const auto& name : model.unclaimed) {
    if (is_apart(family, name, model.architecture.layers)) apart.tensors.push_back(name);
  }
  collect(family, model.checkpoint.config(), "", apart.keys);
  return apart;
}

}  // namespace regauge
