// The bound for comparing two files of bf16 numbers: a vectorised loop over both maps that
// accumulates <a,a>, <a,b> and <b,b>. two_maps A B, files of one length.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Floats [[gnu::vector_size(64)]] = float;
using Words [[gnu::vector_size(64)]] = std::uint32_t;

struct File {
  explicit File(const char* path) {
    const int file = ::open(path, O_RDONLY);
    struct stat status {};
    if (file < 0 || ::fstat(file, &status) != 0) std::exit(2);
    size = static_cast<std::size_t>(status.st_size);
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (start == MAP_FAILED) std::exit(2);
    bytes = static_cast<const char*>(start);
  }
  const char* bytes = nullptr;
  std::size_t size = 0;
};

}  // namespace

int main(int count, char** names) {
  if (count != 3) return 2;
  const File a(names[1]), b(names[2]);
  if (a.size != b.size) return 2;
  constexpr std::size_t kBlock = 8192;
  double sums[3] = {};
  for (std::size_t at = 0; at + kBlock <= a.size; at += kBlock) {
    Floats block[3][2] = {};
    for (std::size_t i = at; i < at + kBlock; i += sizeof(Words)) {
      Words x, y;
      std::memcpy(&x, a.bytes + i, sizeof x);
      std::memcpy(&y, b.bytes + i, sizeof y);
      const Words halves[2][2] = {{x << 16, y << 16}, {x & 0xffff0000u, y & 0xffff0000u}};
      for (int half = 0; half < 2; ++half) {
        Floats u, v;
        std::memcpy(&u, &halves[half][0], sizeof u);
        std::memcpy(&v, &halves[half][1], sizeof v);
        block[0][half] += u * u;
        block[1][half] += u * v;
        block[2][half] += v * v;
      }
    }
    for (int k = 0; k < 3; ++k) {
      const Floats both = block[k][0] + block[k][1];
      for (int lane = 0; lane < 16; ++lane) sums[k] += both[lane];
    }
  }
  std::printf("%g %g %g\n", sums[0], sums[1], sums[2]);
}
