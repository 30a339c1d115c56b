#include "regauge/arch/architecture.h"

#include <nlohmann/json.hpp>

#include <string_view>

#include "io/json.h"
#include "regauge/base/error.h"
#include "require.h"

// A description is refused with an Error, or it survives being written and read again.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Architecture architecture = architecture_from_json(io::parse_json_object(text, "input"));
    REGAUGE_REQUIRE(architecture_from_json(to_json(architecture)) == architecture);
  } catch (const Error&) {
  }
  return 0;
}
