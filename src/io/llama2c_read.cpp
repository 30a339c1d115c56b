#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "checked.h"
#include "corrupt.h"
#include "llama2c.h"

namespace regauge::io {
namespace {

constexpr std::uint32_t kVersionedMagic = 0x616b3432;  // "ak42": llama2.c's versions 1 and 2

Llama2cHeader read_header(const ByteRange& file, const std::string& where) {
  if (file.size() < kLlama2cHeaderBytes) {
    throw CorruptFile(Corruption::header_too_short,
                      fmt::format("{}: {} bytes cannot hold the header ({} bytes)", where,
                                  file.size(), kLlama2cHeaderBytes));
  }
  std::array<std::int32_t, 7> raw{};
  std::memcpy(raw.data(), file.bytes(0, sizeof(raw)).data(), sizeof(raw));
  if (static_cast<std::uint32_t>(raw[0]) == kVersionedMagic) {
    throw CorruptFile(Corruption::unsupported_version,
                      fmt::format("{}: version {}; only the legacy version 0 is read (export.py "
                                  "--version 0)",
                                  where, raw[1]));
  }
  Llama2cHeader header{raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[5] > 0};
  if (!header.shared_weights) header.vocab_size = -header.vocab_size;
  const bool positive = header.dim > 0 && header.hidden_dim > 0 && header.n_layers > 0 &&
                        header.n_heads > 0 && header.n_kv_heads > 0 && header.vocab_size > 0 &&
                        header.max_seq_len > 0;
  if (!positive || header.dim % (2 * header.n_heads) != 0 ||
      header.n_heads % header.n_kv_heads != 0) {
    throw CorruptFile(
        Corruption::bad_header,
        fmt::format("{}: dim {}, hidden_dim {}, n_layers {}, n_heads {}, n_kv_heads {}, vocab_size "
                    "{}, max_seq_len {} describe no model; is this a llama2.c file?",
                    where, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6]));
  }
  return header;
}

// The length of the whole file; nothing on overflow. Divisibility has been checked.
std::optional<std::int64_t> file_bytes(const Llama2cHeader& h) {
  const std::int64_t kv_dim = h.n_kv_heads * h.head_dim();
  const std::int64_t embedding = h.dim * h.vocab_size;  // factors are below 2^31
  const auto attention = product(2 * h.dim, h.dim + kv_dim);
  const auto feed_forward = product(3 * h.dim, h.hidden_dim);
  if (!attention || !feed_forward) return std::nullopt;
  const auto matrices = sum(*attention, *feed_forward);
  const auto layer = matrices ? sum(*matrices, 2 * h.dim) : std::nullopt;
  const auto layers = layer ? product(*layer, h.n_layers) : std::nullopt;
  const std::int64_t rotary = h.max_seq_len * h.head_dim();
  auto total = layers ? sum(*layers, embedding) : std::nullopt;
  if (total && !h.shared_weights) total = sum(*total, embedding);
  if (total) total = sum(*total, rotary + h.dim);
  if (total) total = product(*total, 4);
  return total ? sum(*total, static_cast<std::int64_t>(kLlama2cHeaderBytes)) : std::nullopt;
}

}  // namespace

Llama2cContents parse_llama2c(const ByteRange& file, const std::string& name) {
  const std::string where = fmt::format("[llama2.c] {}", name);
  const Llama2cHeader header = read_header(file, where);
  const auto expected = file_bytes(header);
  const auto found = static_cast<std::int64_t>(file.size());
  if (!expected) {
    throw CorruptFile(Corruption::bad_shape,
                      fmt::format("{}: the size of the described model overflows", where));
  }
  if (found < *expected) {
    throw CorruptFile(Corruption::truncated,
                      fmt::format("{}: the header describes {} bytes, the file has {}; was the "
                                  "download cut short?",
                                  where, *expected, found));
  }
  if (found > *expected) {
    throw CorruptFile(
        Corruption::trailing_bytes,
        fmt::format("{}: the header describes {} bytes, the file has {}; is the output head untied "
                    "(a negative vocab_size)?",
                    where, *expected, found));
  }
  Llama2cContents contents;
  contents.tensors = llama2c_tensors(header);
  contents.config = {{"dim", header.dim},
                     {"hidden_dim", header.hidden_dim},
                     {"n_layers", header.n_layers},
                     {"n_heads", header.n_heads},
                     {"n_kv_heads", header.n_kv_heads},
                     {"vocab_size", header.vocab_size},
                     {"max_seq_len", header.max_seq_len},
                     {"shared_weights", header.shared_weights}};
  return contents;
}

std::vector<StoredTensor> llama2c_tensors(const Llama2cHeader& header) {
  std::vector<StoredTensor> tensors;
  auto offset = static_cast<std::int64_t>(kLlama2cHeaderBytes);
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    StoredTensor tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.offset = offset;
    tensor.bytes = stored_bytes(DType::f32, tensor.elements());
    const auto end = sum(offset, tensor.bytes);
    if (!end) throw UsageError("[llama2.c] the model takes more than 2^63 bytes");
    offset = *end;
    tensors.push_back(std::move(tensor));
  };
  // Each kind of tensor for all layers, then the next kind.
  const auto add_layers = [&](const char* name, const std::vector<std::int64_t>& shape) {
    for (std::int64_t layer = 0; layer < header.n_layers; ++layer) {
      add(fmt::format("layers.{}.{}.weight", layer, name), shape);
    }
  };
  const std::int64_t dim = header.dim, hidden = header.hidden_dim;
  const std::int64_t kv_dim = header.n_kv_heads * header.head_dim();
  add("tok_embeddings.weight", {header.vocab_size, dim});
  add_layers("attention_norm", {dim});
  add_layers("attention.wq", {dim, dim});
  add_layers("attention.wk", {kv_dim, dim});
  add_layers("attention.wv", {kv_dim, dim});
  add_layers("attention.wo", {dim, dim});
  add_layers("ffn_norm", {dim});
  add_layers("feed_forward.w1", {hidden, dim});
  add_layers("feed_forward.w2", {dim, hidden});
  add_layers("feed_forward.w3", {hidden, dim});
  add("norm.weight", {dim});
  add("freq_cis_real", {header.max_seq_len, header.head_dim() / 2});
  add("freq_cis_imag", {header.max_seq_len, header.head_dim() / 2});
  if (!header.shared_weights) add("output.weight", {header.vocab_size, dim});
  return tensors;
}

}  // namespace regauge::io
