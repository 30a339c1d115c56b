#include "connect/record.h"

#include <string_view>

#include "connect/report.h"
#include "io/json.h"
#include "regauge/base/error.h"
#include "require.h"

// A record is refused with an Error, or it survives being written and read again and has a page.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto record = connect::record_from_json(io::parse_json_object(text, "input"), "input");
    const auto written = connect::to_json(record);
    REGAUGE_REQUIRE(connect::to_json(connect::record_from_json(written, "again")) == written);
    const std::vector<connect::Record> records = {record};
    REGAUGE_REQUIRE(!connect::report_page(connect::summarise(records)).empty());
  } catch (const Error&) {
  }
  return 0;
}
