#pragma once

#include <string>

#include "joiner.h"

namespace regauge::io {

// Whether the scale of a block is multiplied by the one for the tensor, or divided by it.
enum class SecondScale { times, divided_by };

// Pairs of floats of four bits, with a scale of type F8_E4M3 for each 16 and one for the tensor.
void join_nvfp4(const std::string& name, const StoredTensor& codes, const StoredTensor& scales,
                const StoredTensor& second, SecondScale how, Joiner& joiner);

}  // namespace regauge::io
