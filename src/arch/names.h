#pragma once

#include <string>
#include <string_view>

#include "regauge/arch/architecture.h"

namespace regauge {

// The parts of a canonical name: of a parameter, a space, a shift or a tap. layer_of() is in
// architecture.h. For "layers.3.attn.q.weight":

std::string_view name_in_layer(
    std::string_view name);  // "attn.q.weight"; all of it without a layer
std::string name_of_layer(std::int64_t layer, std::string_view rest);  // and back, -1 for none
std::string sublayer_of(std::string_view name);                        // "layers.3.attn"
std::string_view owner_of(std::string_view name);                      // "layers.3.attn.q"
std::string sibling_of(std::string_view name, std::string_view role);  // "layers.3.attn.q." + role
std::string across_layers(std::string_view name, char number);  // "layers.N.attn.q.weight" for 'N'

}  // namespace regauge
