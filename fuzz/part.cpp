#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/part_record.h"
#include "io/sha256.h"
#include "regauge/base/error.h"
#include "require.h"

namespace {

using regauge::PartRecord;

// With the hash that belongs to it, without which nothing else is looked at.
std::string hashed(const std::string& text) {
  nlohmann::json file = regauge::io::parse_json_object(text, "input");
  file.erase("sha256");
  const std::string own = file.dump();
  regauge::Sha256 hash;
  hash.add(std::as_bytes(std::span(own)));
  file["sha256"] = hash.finish();
  return file.dump();
}

void read(const std::string& text) {
  const PartRecord record = regauge::part_from_text(text, "input");
  REGAUGE_REQUIRE(record.part >= 1 && record.part <= record.of);
  const std::string again = regauge::part_text(record);
  REGAUGE_REQUIRE(regauge::part_text(regauge::part_from_text(again, "again")) == again);
  regauge::require_one_run({record}, record.asked);
  regauge::paths_in(record.asked);
}

}  // namespace

// The record of a part is refused with an Error, or it is read as it was written.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    read(text);
  } catch (const regauge::Error&) {
  }
  try {
    read(hashed(text));
  } catch (const regauge::Error&) {
  }
  return 0;
}
