#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace regauge::io {

// What an adapter_config.json says of the sums that its tensors stand for.
class AdapterSettings {
 public:
  // Throws UsageError for a method other than LoRA and DoRA, and for options that change what is
  // computed and are not known here.
  explicit AdapterSettings(const nlohmann::json& settings);

  bool fan_in_fan_out() const { return fan_in_fan_out_; }
  bool rank_stabilised() const { return rank_stabilised_; }
  // Written by a PEFT that takes the rows of a stacked map for its outputs (0.19 and later).
  bool swaps_experts() const { return swaps_experts_; }
  // By the name of a module, as the base model has it: "model.layers.0.self_attn.q_proj".
  std::int64_t rank(const std::string& module) const;
  double alpha(const std::string& module) const;
  double scale(const std::string& module) const;

 private:
  // Of each pattern: what it says of the modules that it matches.
  using Patterns = std::vector<std::pair<std::string, double>>;
  static Patterns patterns(const nlohmann::json& settings, const char* key);
  static double at(const Patterns& patterns, const char* key, const std::string& module,
                   double otherwise);

  std::int64_t rank_ = 0;
  double alpha_ = 0;
  bool fan_in_fan_out_ = false, rank_stabilised_ = false, swaps_experts_ = false;
  Patterns ranks_, alphas_;
};

}  // namespace regauge::io
