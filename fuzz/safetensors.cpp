#include "io/safetensors.h"

#include "regauge/base/error.h"
#include "tensors.h"

// A file is refused with an Error, or its tensors lie inside it and its header can be written
// again.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  io::SafetensorsContents contents;
  try {
    contents = io::parse_safetensors(file, "input");
  } catch (const Error&) {
    return 0;
  }
  fuzz::check_tensors(contents.tensors, file);
  auto tensors = contents.tensors;
  auto order = fuzz::pointers(tensors);
  const std::string head = io::lay_out_safetensors(order, contents.metadata);
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors) bytes += tensor.bytes;
  const std::string again = head + std::string(static_cast<std::size_t>(bytes), '\0');
  const auto reread = io::parse_safetensors(std::as_bytes(std::span(again)), "written");
  REGAUGE_REQUIRE(reread.metadata == contents.metadata);
  REGAUGE_REQUIRE(reread.tensors.size() == tensors.size());
  return 0;
}
