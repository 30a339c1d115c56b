#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace regauge {

// The value of an arithmetic formula of a data file: numbers, names, + - * /, brackets, sqrt().
// `value_of` gives the value of a name. Throws UsageError, quoting the formula, when it cannot be
// read.
double evaluate_formula(std::string_view formula,
                        const std::function<double(const std::string&)>& value_of);

}  // namespace regauge
