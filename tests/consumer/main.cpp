#include <regauge/base/blas.h>
#include <regauge/base/version.h>

#include <array>
#include <cstdio>
#include <string_view>

// Prints the version; fails if it is not the one that the package claims, or if a product is wrong.
int main(int argc, char** argv) {
  const std::array a = {1.0, 2.0, 3.0, 4.0};
  std::array c = {0.0, 0.0, 0.0, 0.0};
  regauge::gemm(false, false, 2, 2, 2, 1.0, a.data(), 2, a.data(), 2, 0.0, c.data(), 2);
  const std::string_view version = regauge::version();
  std::printf("regauge %.*s\n", static_cast<int>(version.size()), version.data());
  return argc == 2 && version == argv[1] && c[3] == 22.0 ? 0 : 1;
}
