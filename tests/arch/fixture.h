#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "regauge/arch/layout.h"

namespace regauge::testing {

// A checkpoint of tests/fixtures/ (tools/make_fixtures.py): the folder, or the GGUF file in it.
std::filesystem::path fixture(const std::string& name);

// All of them that hold a model.
const std::vector<std::string>& fixture_names();

// A name that GoogleTest accepts.
std::string test_name(const ::testing::TestParamInfo<std::string>& parameter);

// The stored values of a tensor.
std::vector<double> values(const Checkpoint& checkpoint, const std::string& tensor);

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace regauge::testing
