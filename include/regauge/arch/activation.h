#pragma once

#include "regauge/arch/architecture.h"

namespace regauge {

double activate(Activation activation, double x);

}  // namespace regauge
