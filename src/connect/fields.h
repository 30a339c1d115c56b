#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace regauge::connect {

// null where it is not finite; Fields::number_or_null reads it.
nlohmann::json number_or_null(double value);

// A JSON object that is read key by key; what is wrong is a UsageError that begins with `where`.
class Fields {
 public:
  // The object must outlive this.
  Fields(const nlohmann::json& json, std::string where);

  bool has(const std::string& key) const { return json_.contains(key); }
  const nlohmann::json& at(const std::string& key);

  std::string text(const std::string& key);
  double number(const std::string& key);          // finite
  double number_or_null(const std::string& key);  // NaN for null
  std::int64_t count(const std::string& key);     // at least 0
  const nlohmann::json& object(const std::string& key);
  const nlohmann::json& array(const std::string& key);
  std::vector<double> numbers(const std::string& key);
  std::map<std::string, double> numbers_by_name(const std::string& key);

  // Refuses keys that nobody asked for.
  void finish() const;

  // "WHERE: 'KEY' must be EXPECTED, not FOUND".
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

 private:
  const nlohmann::json& json_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace regauge::connect
