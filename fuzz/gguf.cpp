#include "io/gguf.h"

#include "regauge/base/error.h"
#include "tensors.h"

// A file is refused with an Error, or its tensors lie inside it; what can be written again reads as
// the same keys.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  io::GgufContents contents;
  try {
    contents = io::parse_gguf(file, "input");
  } catch (const Error&) {
    return 0;
  }
  fuzz::check_tensors(contents.tensors, file);
  contents.config.dump();
  std::vector<StoredTensor> none;
  auto order = fuzz::pointers(none);
  std::string written;
  try {
    written = io::lay_out_gguf(order, contents.config);
  } catch (const UsageError&) {
    return 0;
  }
  const auto reread = io::parse_gguf(std::as_bytes(std::span(written)), "written");
  REGAUGE_REQUIRE(reread.config.size() == contents.config.size());
  return 0;
}
