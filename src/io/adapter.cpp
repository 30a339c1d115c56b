#include "adapter.h"

#include <fmt/format.h>

#include "json.h"
#include "regauge/base/error.h"
#include "safetensors.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kPickledAdapter = "adapter_model.bin";

bool exists_now(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::optional<std::pair<fs::path, fs::path>> base_and_adapter(const fs::path& path) {
  const std::string text = path.string();
  for (std::size_t at = text.rfind('+'); at != std::string::npos && at > 0;
       at = text.rfind('+', at - 1)) {
    const fs::path base = text.substr(0, at), adapter = text.substr(at + 1);
    if (adapter.empty()) continue;
    if (exists_now(base) || (exists_now(adapter) && base_and_adapter(base))) {
      return std::pair(base, adapter);
    }
  }
  return std::nullopt;
}

AdapterFiles open_adapter(const fs::path& folder) {
  const std::string where = "[adapter] " + folder.string();
  if (!exists_now(folder))
    throw FileError(where + ": no such folder; expected the adapter of a base");
  if (!exists_now(folder / kAdapterConfig)) {
    throw UsageError(fmt::format(
        "{}: holds no {}; expected a folder as PEFT's save_pretrained writes it (BASE+ADAPTER)",
        where, kAdapterConfig));
  }
  AdapterFiles adapter;
  adapter.settings_text = read_json_text(folder / kAdapterConfig, where);
  adapter.settings = parse_json_object(adapter.settings_text, where);
  adapter.path = folder / kAdapterWeights;
  if (!exists_now(adapter.path)) {
    if (exists_now(folder / kPickledAdapter)) {
      throw UsageError(
          fmt::format("{}: {} is a PyTorch pickle, which is not read; load and save "
                      "the adapter with PEFT, which writes {}",
                      where, kPickledAdapter, kAdapterWeights));
    }
    throw UsageError(fmt::format("{}: holds no {}", where, kAdapterWeights));
  }
  adapter.bytes = open_bytes(adapter.path);
  adapter.tensors = parse_safetensors(adapter.bytes->all(), kAdapterWeights).tensors;
  adapter.bytes->require_read();
  return adapter;
}

}  // namespace regauge::io
