#include "residual_record.h"

#include <nlohmann/json.hpp>

#include "io/part_record.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

Relation relation_from_name(const std::string& name) {
  for (const Relation relation : {Relation::equal, Relation::b_rounds_a, Relation::a_rounds_b,
                                  Relation::both_round, Relation::hidden, Relation::differs}) {
    if (relation_name(relation) == name) return relation;
  }
  throw UsageError("[parts] there is no relation '" + name + "'; make the part again");
}

}  // namespace

void to_json(nlohmann::json& json, const TensorResidual& r) {
  json = {{"tensor", r.tensor},
          {"single_row", r.single_row},
          {"by_entry", r.by_entry},
          {"like_honest", r.like_honest},
          {"relation", relation_name(r.relation)},
          {"size", number_as_json(r.size)},
          {"residual", number_as_json(r.residual)},
          {"rounding", number_as_json(r.rounding)},
          {"excess", number_as_json(r.excess)},
          {"standing_out", r.standing_out}};
}

void from_json(const nlohmann::json& json, TensorResidual& r) {
  json.at("tensor").get_to(r.tensor);
  json.at("single_row").get_to(r.single_row);
  json.at("by_entry").get_to(r.by_entry);
  json.at("like_honest").get_to(r.like_honest);
  r.relation = relation_from_name(json.at("relation").get<std::string>());
  r.size = number_from_json(json.at("size"));
  r.residual = number_from_json(json.at("residual"));
  r.rounding = number_from_json(json.at("rounding"));
  r.excess = number_from_json(json.at("excess"));
  json.at("standing_out").get_to(r.standing_out);
}

}  // namespace regauge
