#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "field_json.h"
#include "fields.h"
#include "regauge/arch/architecture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using field_json::Json;
using field_json::read;
using field_json::write;

// Which linear maps carry a bias: those of a layer, and the head.
using BiasList = std::vector<std::pair<const char*, bool*>>;
BiasList biases_of(Layer& layer) {
  auto& attention = layer.attention.biases;
  auto& ffn = layer.ffn.biases;
  return {{"q", &attention.q}, {"k", &attention.k}, {"v", &attention.v}, {"o", &attention.o},
          {"gate", &ffn.gate}, {"up", &ffn.up},     {"down", &ffn.down}};
}

std::string read(const Json& json, const BiasList& biases) {
  std::vector<std::string> names;
  for (const auto& [name, present] : biases) names.emplace_back(name);
  const std::string expected = fmt::format("a list of {}", fmt::join(names, ", "));
  if (!json.is_array()) return expected;
  for (const auto& [name, present] : biases) *present = false;
  for (const auto& item : json) {
    bool known = false;
    for (const auto& [name, present] : biases) {
      if (item.is_string() && item.get_ref<const std::string&>() == name) *present = known = true;
    }
    if (!known) return expected;
  }
  return "";
}

// Every field by its name, of a layer and of the model: the lists that reading and writing share.
// "positions" and "biases" are of both and stand apart.
template <class L, class Visit>
void visit_layer(L& layer, Visit&& visit) {
  auto& a = layer.attention;
  visit("heads", a.heads);
  visit("kv_heads", a.kv_heads);
  visit("qk_width", a.qk_width);
  visit("v_width", a.v_width);
  visit("rotary_dims", a.rotary_dims);
  visit("rotary_frequencies", a.rotary_frequencies);
  visit("relative_buckets", a.relative_buckets);
  visit("relative_max_distance", a.relative_max_distance);
  visit("grid", a.grid);
  visit("shares_table", a.shares_table);
  visit("cross", a.cross);
  visit("kv_latent", a.kv_latent);
  visit("q_latent", a.q_latent);
  visit("qk_norm", a.qk_norm);
  visit("value_norm", a.value_norm);
  visit("keys_as_values", a.keys_as_values);
  visit("shares_keys", a.shares_keys);
  visit("attention_scale", a.scale);
  visit("attention_temperature", a.temperature);
  visit("attention_temperature_length", a.temperature_length);
  visit("attention_softcap", a.softcap);
  visit("attention_window", a.window);
  visit("attention_sinks", a.sinks);
  visit("contacts", a.contacts);
  visit("attention_gate", a.gate);
  visit("delta_key_heads", layer.delta.key_heads);
  visit("delta_value_heads", layer.delta.value_heads);
  visit("delta_key_width", layer.delta.key_width);
  visit("delta_value_width", layer.delta.value_width);
  visit("delta_kernel", layer.delta.kernel);
  visit("ffn_width", layer.ffn.width);
  visit("activation", layer.ffn.activation);
  visit("gated", layer.ffn.gated);
  visit("ffn_limit", layer.ffn.limit);
  visit("up_offset", layer.ffn.up_offset);
  visit("experts", layer.ffn.experts.count);
  visit("active_experts", layer.ffn.experts.active);
  visit("renormalised_experts", layer.ffn.experts.renormalised);
  visit("router_bias", layer.ffn.experts.router_bias);
  visit("shared_expert_width", layer.ffn.experts.shared_width);
  visit("shared_expert_gate", layer.ffn.experts.shared_gate);
  visit("expert_scoring", layer.ffn.experts.scoring);
  visit("expert_selection_bias", layer.ffn.experts.selection_bias);
  visit("expert_weight_scale", layer.ffn.experts.weight_scale);
  visit("expert_groups", layer.ffn.experts.groups);
  visit("active_expert_groups", layer.ffn.experts.active_groups);
  visit("expert_group_leaders", layer.ffn.experts.group_leaders);
  visit("expert_norms", layer.ffn.experts.own_norms);
  visit("expert_scales", layer.ffn.experts.scales);
  visit("router_scale", layer.ffn.experts.router_scale);
  visit("placement", layer.placement);
  visit("parallel", layer.parallel);
  visit("shared_norm", layer.shared_norm);
  visit("branch_scale", layer.branch_scale);
  visit("layer_scale", layer.layer_scale);
  visit("stream_scale", layer.stream_scale);
}

template <class A, class Visit>
void visit_model(A& a, Visit&& visit) {
  visit("width", a.width);
  visit("layers", a.layers);
  visit("encoder_layers", a.encoder_layers);
  visit("passes", a.passes);
  visit("input", a.input);
  visit("vocabulary", a.vocabulary);
  visit("encoder_vocabulary", a.encoder_vocabulary);
  visit("input_width", a.input_width);
  visit("input_bias", a.input_bias);
  visit("convolutions", a.convolutions);
  visit("convolution_norm", a.convolution_norm);
  visit("input_norm", a.input_norm);
  visit("positional_kernel", a.positional_kernel);
  visit("positional_groups", a.positional_groups);
  visit("deep_inputs", a.deep_inputs);
  visit("table_width", a.table_width);
  visit("vector_row", a.vector_row);
  visit("class_token", a.class_token);
  visit("distillation_token", a.distillation_token);
  visit("registers", a.registers);
  visit("token_types", a.token_types);
  visit("embedding_scale", a.embedding_scale);
  visit("dropped_token", a.dropped_token);
  visit("embedding_norm", a.embedding_norm);
  visit("embedding_width", a.embedding_width);
  visit("bare_first_attention", a.bare_first_attention);
  visit("sinusoids", a.sinusoids);
  visit("first_position", a.first_position);
  visit("max_positions", a.max_positions);
  visit("encoder_positions", a.encoder_positions);
  visit("norm", a.norm);
  visit("norm_bias", a.norm_bias);
  visit("norm_eps", a.norm_eps);
  visit("causal", a.causal);
  visit("output", a.output);
  visit("classes", a.classes);
  visit("classes_everywhere", a.classes_everywhere);
  visit("distillation_head", a.distillation_head);
  visit("last_position", a.last_position);
  visit("mean_position", a.mean_position);
  visit("mean_norm", a.mean_norm);
  visit("pooler", a.pooler);
  visit("pooler_activation", a.pooler_activation);
  visit("classes_pooled", a.classes_pooled);
  visit("head_transform", a.head_transform);
  visit("transform_bias", a.transform_bias);
  visit("logit_scale", a.logit_scale);
  visit("logit_softcap", a.logit_softcap);
  visit("tied", a.tied);
  visit("log_probabilities", a.log_probabilities);
}

Json layer_json(Layer layer) {
  Json json = Json::object();
  visit_layer(layer, [&](const char* name, const auto& value) { write(json[name], value); });
  write(json["positions"], layer.attention.positions);
  json["biases"] = Json::array();
  for (const auto& [name, present] : biases_of(layer)) {
    if (*present) json["biases"].push_back(name);
  }
  return json;
}

// "positions" names a table, what every attention does, or both: "learned and relative".
constexpr std::string_view kAnd = " and ";
std::string read(const Json& json, std::pair<PositionTable*, Positions*> value) {
  *value.first = PositionTable::none;
  *value.second = Positions::none;
  if (read(json, *value.first).empty() || read(json, *value.second).empty()) return "";
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const std::size_t both = text.find(kAnd);
  if (both != std::string::npos && read(Json(text.substr(0, both)), *value.first).empty() &&
      read(Json(text.substr(both + kAnd.size())), *value.second).empty()) {
    return "";
  }
  return "one of none, sinusoidal, learned, rotary, alibi, relative, learned and relative";
}

Json positions_json(const Architecture& a) {
  Json table, inside;
  write(table, a.position_table);
  write(inside, a.kinds.front().attention.positions);
  if (!a.has_position_table()) return inside;
  if (a.kinds.front().attention.positions == Positions::none) return table;
  return fmt::format("{}{}{}", table.get<std::string>(), kAnd, inside.get<std::string>());
}

// Reads what an object says of the model or of a layer, and notes what it could not read.
class FieldReader {
 public:
  FieldReader(const Json& json, std::vector<std::string>& problems)
      : json_(json), problems_(problems) {}

  template <class T>
  void operator()(const char* name, T&& value) {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    const std::string expected = read(*found, value);
    if (expected.empty()) return;
    std::string problem = fmt::format("{} is {}; expected {}", name, found->dump(), expected);
    if (std::ranges::find(problems_, problem) == problems_.end()) {
      problems_.push_back(std::move(problem));
    }
  }

 private:
  const Json& json_;
  std::vector<std::string>& problems_;
};

// `json`: the model's object, with what a kind has of its own in place of the model's.
Layer read_layer(const Json& json, std::vector<std::string>& problems) {
  Layer layer;
  bool head = false;
  PositionTable table = PositionTable::none;
  FieldReader reader(json, problems);
  visit_layer(layer, reader);
  reader("positions", std::pair{&table, &layer.attention.positions});
  BiasList biases = biases_of(layer);
  biases.emplace_back("head", &head);
  reader("biases", biases);
  // Groups of experts that are all active are none.
  Experts& e = layer.ffn.experts;
  if (e.groups > 0 && e.groups == e.active_groups && e.count % e.groups == 0) {
    e.groups = e.active_groups = e.group_leaders = 1;
  }
  // What follows from the rest when it is not given.
  Attention& a = layer.attention;
  if (!json.contains("kv_heads")) a.kv_heads = a.heads;
  if (!json.contains("v_width")) a.v_width = a.qk_width;
  if (!json.contains("attention_scale") && a.qk_width > 0) {
    a.scale = 1 / std::sqrt(static_cast<double>(a.qk_width));
  }
  if (a.positions == Positions::rotary) {
    if (!json.contains("rotary_dims")) a.rotary_dims = a.qk_width;
    if (!json.contains("rotary_frequencies") && a.rotary_dims > 0 && a.rotary_dims <= a.qk_width &&
        a.qk_width < (1 << 20)) {
      a.rotary_frequencies = rotary_frequencies(a.rotary_dims, 10000);
    }
  }
  return layer;
}

std::vector<Layer> read_kinds(const Json& json, std::vector<std::string>& problems) {
  const auto found = json.find("kinds");
  if (found == json.end()) return {read_layer(json, problems)};
  const Json of_layers = layer_json({});
  std::vector<Layer> kinds;
  if (!found->is_array() || found->empty()) problems.emplace_back("kinds is not a list of objects");
  for (const auto& own : *found) {
    Json merged = json;
    for (const auto& [key, value] : own.items()) {
      if (!of_layers.contains(key))
        problems.push_back(fmt::format("unknown key '{}' of a kind", key));
      merged[key] = value;
    }
    kinds.push_back(read_layer(merged, problems));
  }
  if (kinds.empty()) kinds.emplace_back();
  return kinds;
}

std::vector<std::int64_t> read_pattern(const Json& json, std::vector<std::string>& problems) {
  std::vector<std::int64_t> pattern;
  const auto found = json.find("pattern");
  if (found == json.end()) return pattern;
  for (const auto& item : *found) {
    std::int64_t kind = 0;
    if (!read(item, kind).empty()) {
      problems.push_back(
          fmt::format("pattern is {}; expected a list of whole numbers", found->dump()));
      break;
    }
    pattern.push_back(kind);
  }
  return pattern;
}

// Fields that came later, and that files without them do not write.
constexpr const char* kOnlyWhereSaid[] = {"kv_latent",
                                          "q_latent",
                                          "expert_scoring",
                                          "expert_selection_bias",
                                          "expert_weight_scale",
                                          "expert_groups",
                                          "active_expert_groups",
                                          "expert_group_leaders",
                                          "classes_everywhere",
                                          "last_position",
                                          "mean_position",
                                          "mean_norm",
                                          "grid",
                                          "contacts",
                                          "distillation_token",
                                          "distillation_head",
                                          "dropped_token",
                                          "transform_bias",
                                          "bare_first_attention",
                                          "pooler",
                                          "pooler_activation",
                                          "classes_pooled",
                                          "encoder_layers",
                                          "passes",
                                          "embedding_width",
                                          "encoder_vocabulary",
                                          "encoder_positions",
                                          "convolutions",
                                          "convolution_norm",
                                          "input_norm",
                                          "positional_kernel",
                                          "positional_groups",
                                          "sinusoids",
                                          "first_position",
                                          "shares_table",
                                          "cross",
                                          "attention_gate",
                                          "delta_key_heads",
                                          "delta_value_heads",
                                          "delta_key_width",
                                          "delta_value_width",
                                          "delta_kernel",
                                          "layer_scale",
                                          "value_norm",
                                          "keys_as_values",
                                          "shares_keys",
                                          "table_width",
                                          "vector_row",
                                          "stream_scale",
                                          "expert_norms",
                                          "expert_scales",
                                          "router_scale",
                                          "registers",
                                          "attention_temperature",
                                          "attention_temperature_length",
                                          "deep_inputs",
                                          "beside"};

}  // namespace

Json complete_json(const Architecture& architecture) {
  Json json = layer_json(architecture.kinds.front());
  visit_model(architecture, [&](const char* name, const auto& value) { write(json[name], value); });
  json["positions"] = positions_json(architecture);
  if (architecture.head_bias) json["biases"].push_back("head");
  json["beside"] = Json::array();
  for (const Architecture& beside : architecture.beside) json["beside"].push_back(to_json(beside));
  if (architecture.pattern.empty()) return json;
  json["pattern"] = architecture.pattern;
  json["kinds"] = Json::array();
  const Json first = layer_json(architecture.kinds.front());
  for (const auto& kind : architecture.kinds) {
    Json own = Json::object();
    const Json of_kind = layer_json(kind);
    for (const auto& [name, value] : of_kind.items()) {
      if (value != first.at(name)) own[name] = value;
    }
    json["kinds"].push_back(std::move(own));
  }
  return json;
}

Json to_json(const Architecture& architecture) {
  static const Json defaults = complete_json({});
  Json json = complete_json(architecture);
  for (const char* field : kOnlyWhereSaid) {
    if (json.at(field) == defaults.at(field)) json.erase(field);
  }
  return json;
}

Architecture architecture_from_json(const Json& json) {
  Architecture architecture = unchecked_from_json(json);
  validate(architecture);
  return architecture;
}

Architecture unchecked_from_json(const Json& json) {
  if (!json.is_object()) throw UsageError("[architecture] expected a JSON object");
  Architecture architecture;
  std::vector<std::string> problems;
  const Json known = complete_json(architecture);
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key) && key != "kinds" && key != "pattern") {
      problems.push_back(fmt::format("unknown key '{}'", key));
    }
  }
  FieldReader reader(json, problems);
  visit_model(architecture, reader);
  Positions of_layers = Positions::none;
  reader("positions", std::pair{&architecture.position_table, &of_layers});
  Layer ignored;
  BiasList biases = biases_of(ignored);
  biases.emplace_back("head", &architecture.head_bias);
  reader("biases", biases);
  architecture.kinds = read_kinds(json, problems);
  architecture.pattern = read_pattern(json, problems);
  if (const auto beside = json.find("beside"); beside != json.end()) {
    if (!beside->is_array() || beside->size() > 1) {
      problems.push_back(fmt::format("beside is {}; expected a list of one architecture, or none",
                                     beside->dump()));
    } else {
      for (const Json& other : *beside) {
        if (other.is_object() && other.contains("beside")) {
          problems.emplace_back("a model beside has none beside it");
        } else {
          architecture.beside.push_back(unchecked_from_json(other));
        }
      }
    }
  }
  if (!problems.empty()) {
    throw UsageError(fmt::format("[architecture] {}", fmt::join(problems, "\n[architecture] ")));
  }
  return architecture;
}

bool same_value(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_value);
  }
  if (a.is_object() && b.is_object()) {
    const auto is_in_b = [&](const auto& entry) {
      return b.contains(entry.key()) && same_value(entry.value(), b.at(entry.key()));
    };
    const auto items = a.items();
    return a.size() == b.size() && std::all_of(items.begin(), items.end(), is_in_b);
  }
  if (!a.is_number_float() && !b.is_number_float()) return a == b;
  if (!a.is_number() || !b.is_number()) return false;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::min(std::abs(x), std::abs(y));
}

}  // namespace regauge
