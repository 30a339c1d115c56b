#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge {

// What a checkpoint has beside its tensors.
struct Checkpoint::Metadata {
  void read_config(const std::filesystem::path& path);
  void read_config_beside(const std::filesystem::path& file);

  nlohmann::json config;
  std::optional<std::string> config_text;  // of a config.json
  std::vector<std::string> adapters;       // the adapter_config.json of each
  std::vector<nlohmann::json> files;
};

}  // namespace regauge
