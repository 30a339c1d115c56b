#pragma once

#include <map>
#include <string>
#include <vector>

#include "regauge/arch/layout.h"

namespace regauge {

// What belongs to other parts of a checkpoint (a vision tower), of which the architecture says
// nothing. No element moves it, and two models are the same only where it is the same, bit by bit.
struct Apart {
  std::vector<std::string> tensors;         // of Model::unclaimed, and not of Model::unread
  std::map<std::string, std::string> keys;  // of the config, with their values as ASCII JSON
};
Apart apart_of(const Model& model);

}  // namespace regauge
