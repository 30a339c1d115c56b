#pragma once

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

// The tensors of a base, each with what a PEFT adapter makes of it: a packed tensor of both where
// it adds something, the adapter's own where it holds one in its place. `config` is the base's; it
// is changed where the adapter unties the head. Throws UsageError that names the tensor where the
// two do not fit together, or where something of the adapter would be left over.
std::vector<StoredTensor> join_adapter(const nlohmann::json& settings,
                                       const std::vector<StoredTensor>& adapter,
                                       std::vector<StoredTensor> base, nlohmann::json& config);

}  // namespace regauge::io
