#pragma once

#include <string>
#include <vector>

#include "regauge/arch/layout.h"

namespace regauge {

// What lies beside the weights of either model and may change what a user gets from it, but is no
// part of the function of token ids that was compared: tokenizer, chat template, generation
// settings, code, adapters. One line, "not compared: tokenizer.json, generation_config.json (in
// B)", or none.
std::vector<std::string> not_compared(const Model& a, const Model& b);

}  // namespace regauge
