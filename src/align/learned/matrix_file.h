#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "regauge/arch/parameters.h"

namespace regauge {

// Matrices by name, and a few words, in one safetensors file; replaced whole or not at all.
struct MatrixFile {
  std::map<std::string, Matrix<double>> matrices;
  std::map<std::string, std::string> notes;

  void save(const std::filesystem::path& path) const;
  // Throws UsageError for a file that holds anything but matrices of F64.
  static MatrixFile load(const std::filesystem::path& path);
};

}  // namespace regauge
