#pragma once

#include <string_view>
#include <vector>

namespace regauge {

// The files of data/architectures/, compiled in so that the program needs no data folder.
struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
};
const std::vector<EmbeddedFile>& embedded_architectures();
// data/harmless-keys.json.
const EmbeddedFile& embedded_harmless_keys();

}  // namespace regauge
