#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/io/bytes.h"
#include "regauge/io/dtype.h"

namespace regauge::io {

struct PickleValue;

// A tensor as torch.save writes it: element (i, j, ...) is number i * strides[0] + j * strides[1]
// + ... from `offset` on, and all of them lie in the file.
struct TorchTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements, none negative
  std::int64_t offset = 0;            // of the first element, in bytes

  // Its bytes, row-major and without gaps.
  std::int64_t bytes() const;
  bool is_contiguous() const;  // they lie so in the file
};

// Under which of the keys that trainers use a state dict is found, where it is not all there is.
inline constexpr std::array<std::string_view, 4> kStateDictKeys = {"state_dict", "model_state_dict",
                                                                   "model", "module"};

// The state dict of a file that torch.save wrote in its zip format: sorted by offset; tensors may
// share bytes. Throws CorruptFile; UsageError for what torch.save writes and is not read.
std::vector<TorchTensor> parse_torch_file(const ByteRange& file, const std::string& name);

// One tensor that was saved alone. `where` begins messages; the name is empty.
TorchTensor parse_torch_tensor(const ByteRange& file, const std::string& where);

// The safetensors name of a type: "F32" for "torch.float32" and "torch.FloatStorage"; empty for
// another name.
std::string_view dtype_of_torch(std::string_view global);

// Whether the file begins as a zip archive, as torch.save's do. Throws UsageError for other
// pickles, parts of a distributed checkpoint and other files that are called .pt, .pth or .ckpt;
// `path` is for messages.
bool is_torch_file(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace regauge::io
