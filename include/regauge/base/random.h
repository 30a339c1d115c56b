#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace regauge {

// A named random stream: the numbers depend on (seed, name) alone, on every machine and compiler.
// The state is splitmix64 of seed xor FNV-1a(name); the generator is xoshiro256**.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name);

  std::uint64_t bits();
  double uniform();                        // [0, 1), 53 bits
  double normal();                         // standard normal, Box-Muller
  std::int64_t below(std::int64_t bound);  // [0, bound), unbiased
  bool coin() { return (bits() >> 63) != 0; }
  std::vector<std::int64_t> permutation(std::int64_t size);

 private:
  std::uint64_t state_[4];
};

}  // namespace regauge
