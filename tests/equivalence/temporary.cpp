#include "temporary.h"

#include <unistd.h>

namespace regauge::testing {

Temporary::Temporary(const std::string& name)
    : folder_(std::filesystem::temp_directory_path() /
              ("regauge-" + name + "-" + std::to_string(getpid()))) {
  std::filesystem::create_directories(folder_);
}

Temporary::~Temporary() { std::filesystem::remove_all(folder_); }

}  // namespace regauge::testing
