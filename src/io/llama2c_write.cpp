#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "describe.h"
#include "llama2c.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

std::int64_t size_of(const json& config, const char* key) {
  const auto found = config.find(key);
  const bool integer = found != config.end() && found->is_number_integer();
  const std::int64_t value = integer ? found->get<std::int64_t>() : 0;
  if (value <= 0 || value > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError(
        fmt::format("[llama2.c] the header needs '{}', a positive 32-bit integer", key));
  }
  return value;
}

}  // namespace

Llama2cHeader llama2c_header(const json& config) {
  Llama2cHeader header;
  header.dim = size_of(config, "dim");
  header.hidden_dim = size_of(config, "hidden_dim");
  header.n_layers = size_of(config, "n_layers");
  header.n_heads = size_of(config, "n_heads");
  header.n_kv_heads = size_of(config, "n_kv_heads");
  header.vocab_size = size_of(config, "vocab_size");
  header.max_seq_len = size_of(config, "max_seq_len");
  const auto shared = config.find("shared_weights");
  if (shared == config.end() || !shared->is_boolean()) {
    throw UsageError("[llama2.c] the header needs 'shared_weights', a boolean");
  }
  header.shared_weights = shared->get<bool>();
  if (header.dim % (2 * header.n_heads) != 0 || header.n_heads % header.n_kv_heads != 0) {
    throw UsageError(
        fmt::format("[llama2.c] dim {} must be a multiple of 2 * n_heads {}, which must "
                    "be a multiple of n_kv_heads {}",
                    header.dim, header.n_heads, header.n_kv_heads));
  }
  return header;
}

std::string lay_out_llama2c(std::span<StoredTensor*> tensors, const json& config) {
  const Llama2cHeader header = llama2c_header(config);
  std::unordered_map<std::string, StoredTensor> expected;
  for (StoredTensor& tensor : llama2c_tensors(header)) expected.emplace(tensor.name, tensor);
  for (StoredTensor* tensor : tensors) {
    const auto found = expected.find(tensor->name);
    if (found == expected.end() || tensor->dtype != DType::f32 ||
        tensor->shape != found->second.shape) {
      throw UsageError(fmt::format(
          "[llama2.c] tensor '{}': {} was expected, not {}", tensor->name,
          found == expected.end() ? "no such name" : describe(DType::f32, found->second.shape),
          describe(tensor->dtype, tensor->shape)));
    }
    tensor->offset = found->second.offset;
    tensor->bytes = found->second.bytes;
    expected.erase(found);
  }
  expected.erase("freq_cis_real");
  expected.erase("freq_cis_imag");
  if (!expected.empty()) {
    throw UsageError(fmt::format("[llama2.c] {} tensors are missing, among them '{}'",
                                 expected.size(), expected.begin()->first));
  }
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const std::array<std::int32_t, 7> raw = {
      narrow(header.dim),
      narrow(header.hidden_dim),
      narrow(header.n_layers),
      narrow(header.n_heads),
      narrow(header.n_kv_heads),
      narrow(header.shared_weights ? header.vocab_size : -header.vocab_size),
      narrow(header.max_seq_len)};
  std::string head(sizeof(raw), '\0');
  std::memcpy(head.data(), raw.data(), sizeof(raw));
  return head;
}

std::vector<std::byte> llama2c_rotary_table(const Llama2cHeader& header, bool sine) {
  const std::int64_t pairs = header.head_dim() / 2;
  std::vector<float> table;
  for (std::int64_t t = 0; t < header.max_seq_len; ++t) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double exponent = static_cast<double>(2 * i) / static_cast<double>(header.head_dim());
      const double angle = static_cast<double>(t) * std::pow(10000.0, -exponent);
      table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
    }
  }
  const auto bytes = std::as_bytes(std::span(table));
  return {bytes.begin(), bytes.end()};
}

}  // namespace regauge::io
