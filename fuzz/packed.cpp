#include <fuzzer/FuzzedDataProvider.h>
#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <vector>

#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"
#include "require.h"

namespace {

using namespace regauge;
using nlohmann::json;

constexpr std::array kMethods = {"fp8",   "compressed-tensors", "gptq",         "awq",
                                 "mxfp4", "modelopt",           "bitsandbytes", "unknown"};
constexpr std::array kNames = {"x.weight",
                               "x.weight_scale",
                               "x.weight_scale_inv",
                               "x.scale",
                               "x.weight_packed",
                               "x.weight_shape",
                               "x.weight_zero_point",
                               "x.weight_g_idx",
                               "x.qweight",
                               "x.qzeros",
                               "x.scales",
                               "x.g_idx",
                               "x.biases",
                               "x.weight_global_scale",
                               "x.weight_scale_2",
                               "x_blocks",
                               "x_scales",
                               "x.SCB",
                               "x.weight_format",
                               "x.weight.absmax",
                               "x.weight.quant_map",
                               "x.weight.nested_absmax",
                               "x.weight.nested_quant_map",
                               "x.weight.quant_state.bitsandbytes__nf4"};
constexpr std::array kTypes = {DType::f32,     DType::f16,     DType::bf16,   DType::i64,
                               DType::i32,     DType::i8,      DType::u32,    DType::u8,
                               DType::f8_e4m3, DType::f8_e5m2, DType::f8_e8m0};

json any_settings(FuzzedDataProvider& from) {
  const auto number = [&] { return from.ConsumeIntegralInRange<int>(-1, 130); };
  json settings = {{"quant_method", from.PickValueInArray(kMethods)}};
  for (const char* key : {"bits", "group_size"}) {
    if (from.ConsumeBool()) settings[key] = number();
  }
  if (from.ConsumeBool()) settings["checkpoint_format"] = "gptq_v2";
  if (from.ConsumeBool()) settings["dynamic"] = json::object();
  if (from.ConsumeBool()) settings["weight_block_size"] = {number(), number()};
  if (from.ConsumeBool()) {
    settings["config_groups"]["a"]["weights"] = {{"num_bits", number()},
                                                 {"group_size", number()},
                                                 {"block_structure", {number(), number()}}};
  }
  return settings;
}

MemoryTensor any_tensor(FuzzedDataProvider& from, std::string name) {
  MemoryTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = from.PickValueInArray(kTypes);
  std::int64_t count = 1;
  for (int sides = from.ConsumeIntegralInRange<int>(0, 4); sides > 0; --sides) {
    tensor.shape.push_back(from.ConsumeIntegralInRange<std::int64_t>(0, 33));
    count *= tensor.shape.back();
    if (count > 4096) {
      count /= tensor.shape.back();
      tensor.shape.pop_back();
    }
  }
  std::string given = from.ConsumeRandomLengthString(256);
  if (tensor.name.find("quant_state") != std::string::npos) {
    const auto side = [&] { return from.ConsumeIntegral<std::int16_t>(); };
    given = json({{"shape", {side(), side()}}, {"blocksize", side()}, {"nested_blocksize", side()}})
                .dump();
    tensor.dtype = DType::u8;
    tensor.shape = {static_cast<std::int64_t>(given.size())};
    count = tensor.shape[0];
  }
  const auto size = static_cast<std::size_t>(count * block_bytes(tensor.dtype));
  const auto held = std::make_shared<std::vector<std::byte>>(size);
  for (std::size_t i = 0; i < size && !given.empty(); ++i) {
    (*held)[i] = static_cast<std::byte>(given[i % given.size()]);
  }
  tensor.bytes = *held;
  tensor.owner = held;
  return tensor;
}

}  // namespace

// Tensors that are joined are refused with an Error, or can be decoded, as a whole and by parts.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  FuzzedDataProvider from(data, size);
  const json config = {
      {from.ConsumeBool() ? "quantization_config" : "quantization", any_settings(from)}};
  std::vector<MemoryTensor> tensors;
  for (const char* name : kNames) {
    if (from.ConsumeBool()) tensors.push_back(any_tensor(from, name));
  }
  try {
    const Checkpoint checkpoint = Checkpoint::in_memory(config, tensors);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      const Numbers numbers = checkpoint.numbers(tensor);
      constexpr std::int64_t kMost = 1 << 16;
      if (numbers.count() > kMost) continue;
      const auto count = static_cast<std::size_t>(numbers.count());
      std::vector<double> values(count), below(count), above(count);
      numbers.decode<double>(values);
      numbers.rounding_bounds(values, below, above);
      std::vector<signed char> ends(count);
      numbers.block_ends(values, ends);
      for (std::int64_t first = 0; first < numbers.count(); first += 7) {
        std::array<float, 1> one{};
        numbers.range(first, 1).decode<float>(one);
        const auto whole = static_cast<float>(values[static_cast<std::size_t>(first)]);
        const bool alike = one[0] == whole || (one[0] != one[0] && whole != whole);
        REGAUGE_REQUIRE(alike || !tensor.packing);
      }
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
