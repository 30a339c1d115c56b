#pragma once

#include <optional>
#include <string>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/equivalence/diagnosis.h"

namespace regauge::testing {

// A model that a mistake is made on, as its file means to store it.
struct Victim {
  Architecture architecture;
  Parameters<double> parameters;
  bool halves = false;  // the file stores rotary pairs as halves
};

// A mistake as someone makes it, in plain loops that share nothing with what finds it.
struct Injection {
  std::string name;
  Mistake expected;
  bool (*concerns)(const Architecture&);
  void (*make)(Victim&, Random&);
  // It can be told from others where B stands in other coordinates besides.
  bool survives_moves = true;
};

const std::vector<Injection>& injections();

}  // namespace regauge::testing
