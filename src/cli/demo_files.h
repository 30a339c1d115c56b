#pragma once

#include <string_view>
#include <vector>

namespace regauge::cli {

// A file of data/demo, compiled in: its bytes are the pieces, one after another.
struct DemoFile {
  std::string_view name;
  std::vector<std::string_view> pieces;
};
const std::vector<DemoFile>& demo_files();

}  // namespace regauge::cli
