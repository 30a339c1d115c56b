#pragma once

#include <cstdlib>

// What must hold for every input; a fuzzer reports the abort.
#define REGAUGE_REQUIRE(condition)  \
  do {                              \
    if (!(condition)) std::abort(); \
  } while (false)
