#include "io/shard_index.h"

#include "regauge/base/error.h"
#include "require.h"

// An index is refused with an Error, or every shard is a file beside it.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  try {
    const auto index = io::parse_shard_index({reinterpret_cast<const char*>(data), size}, "input");
    for (const std::string& file : index.files()) {
      REGAUGE_REQUIRE(std::filesystem::path(file).filename() == file);
      REGAUGE_REQUIRE(file != ".." && file.find('\0') == std::string::npos);
    }
  } catch (const Error&) {
  }
  return 0;
}
