#include "io/llama2c.h"

#include "regauge/base/error.h"
#include "tensors.h"

// A file is refused with an Error, or its tensors lie inside it and its header can be written
// again.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  io::Llama2cContents contents;
  try {
    contents = io::parse_llama2c(file, "input");
  } catch (const Error&) {
    return 0;
  }
  fuzz::check_tensors(contents.tensors, file);
  auto order = fuzz::pointers(contents.tensors);
  const std::string head = io::lay_out_llama2c(order, contents.config);
  REGAUGE_REQUIRE(std::string(reinterpret_cast<const char*>(data), head.size()) == head);
  return 0;
}
