#pragma once

#include <filesystem>
#include <string>

namespace regauge::testing {

// A folder of its own that goes away with the object.
class Temporary {
 public:
  explicit Temporary(const std::string& name);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

}  // namespace regauge::testing
