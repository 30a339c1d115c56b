#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

// The seven numbers that begin a file of llama2.c's legacy version 0.
struct Llama2cHeader {
  std::int64_t dim = 0, hidden_dim = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, vocab_size = 0,
               max_seq_len = 0;
  bool shared_weights = true;  // stored as the sign of vocab_size

  std::int64_t head_dim() const { return dim / n_heads; }
};
inline constexpr std::size_t kLlama2cHeaderBytes = 28;

struct Llama2cContents {
  std::vector<StoredTensor> tensors;
  nlohmann::json config;
};

// `file` is the whole file, `name` goes into messages. Throws CorruptFile.
Llama2cContents parse_llama2c(const ByteRange& file, const std::string& name);

// All tensors of such a file, in its order, with their offsets, named as in llama2.c's state dict.
std::vector<StoredTensor> llama2c_tensors(const Llama2cHeader& header);

// Gives each of `tensors` its bytes and offset and returns the 28 bytes of the header. The tensors
// must be those of the file, but freq_cis_real and freq_cis_imag may be left out. Throws
// UsageError.
std::string lay_out_llama2c(std::span<StoredTensor*> tensors, const nlohmann::json& config);

// cos (or sin) of t * 10000^(-2i/head_dim) as F32 bytes, shape [max_seq_len, head_dim / 2].
std::vector<std::byte> llama2c_rotary_table(const Llama2cHeader& header, bool sine);

Llama2cHeader llama2c_header(const nlohmann::json& config);

}  // namespace regauge::io
