#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "io/packings/grouped.h"
#include "regauge/base/random.h"
#include "regauge/io/dtype.h"
#include "regauge/io/numbers.h"

// How fast stored numbers become floats, beside memcpy of as many bytes of floats on the same core:
// both are bytes written by the second, and run in turns. A whole matrix of 16 MiB of floats is
// decoded, which no cache next to the core holds. The counters are medians over the turns.
namespace regauge {
namespace {

constexpr std::int64_t kRows = 1024, kCols = 4096;
constexpr std::int64_t kNumbers = kRows * kCols;
constexpr int kTurns = 41;

std::vector<std::byte> random_bytes(std::size_t size) {
  Random random(1, "bench");
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(256 * random.uniform());
  return bytes;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + kTurns / 2);
  return values[kTurns / 2];
}

// Of this thread's processor: others may use the machine as well.
double now() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
double seconds(const Work& work) {
  const double begin = now();
  work();
  return now() - begin;
}

void beside_memcpy(benchmark::State& state, const Numbers& numbers) {
  std::vector<float> from(static_cast<std::size_t>(kNumbers), 1), to = from, copy = from;
  constexpr double kBytes = 4e-9 * static_cast<double>(kNumbers);
  std::vector<double> decoded(kTurns), copied(kTurns), share(kTurns);
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
      copied[turn] = seconds([&] {
        std::memcpy(copy.data(), from.data(), 4 * from.size());
        benchmark::ClobberMemory();
      });
      decoded[turn] = seconds([&] {
        numbers.decode<float>(to);
        benchmark::ClobberMemory();
      });
      share[turn] = copied[turn] / decoded[turn];
    }
  }
  state.counters["GB/s"] = kBytes / median(decoded);
  state.counters["memcpy"] = kBytes / median(copied);
  state.counters["share"] = median(share);
}

void decode_type(benchmark::State& state, DType dtype) {
  const auto bytes = random_bytes(static_cast<std::size_t>(stored_bytes(dtype, kNumbers)));
  beside_memcpy(state, Numbers(dtype, bytes));
}

// Codes of a matrix with a scale for each 64 of a row, as the tools lay them.
struct Laid {
  const char* name;
  io::Grid grid;
  io::Codes codes;
  bool zeros = false;
  io::Grouped::Blocks blocks = {1, 64, kCols / 64, 1};
};

io::Codes of_bits(int bits) {
  io::Codes codes;
  codes.bits = bits;
  codes.line_bytes = kCols * bits / 8;
  return codes;
}

// As GPTQ has them: the words of a row of inputs side by side.
io::Codes side_by_side(int bits) {
  io::Codes codes;
  codes.bits = bits;
  codes.line_bytes = 4;
  codes.word_bytes = 4 * kRows;
  return codes;
}

// As AWQ has them: a word holds a column's codes of eight rows.
io::Codes down(int bits) {
  io::Codes codes;
  codes.bits = bits;
  codes.along_rows = false;
  codes.line_bytes = kRows * bits / 8;
  codes.order = {0, 4, 1, 5, 2, 6, 3, 7};
  return codes;
}

std::vector<Laid> packings() {
  using io::Grid;
  const io::Grouped::Blocks by_columns = {1, 64, 1, kRows};
  const Grid e4m3 = Grid::floats8(DType::f8_e4m3);
  std::vector<Laid> all = {
      {"FP8 in blocks", e4m3, of_bits(8), false, {128, 128, kCols / 128, 1}},
      {"INT8 in groups", Grid::two_complement(), of_bits(8)},
      {"INT8 in groups with zeros", Grid::two_complement(), of_bits(8), true},
      {"INT4 in groups", Grid::integers_around(4), of_bits(4)},
      {"INT4 in groups with zeros", Grid::integers_around(4), of_bits(4), true},
      {"INT3 in groups", Grid::integers_around(3), of_bits(3)},
      {"FP4 in groups", Grid::e2m1(0), of_bits(4)},
      {"GPTQ of 4 bits", Grid::unsigned_integers(4), side_by_side(4), true},
      {"GPTQ of 8 bits", Grid::unsigned_integers(8), side_by_side(8), true},
      {"AWQ", Grid::unsigned_integers(4), down(4), true}};
  for (std::size_t i = all.size() - 3; i < all.size(); ++i) all[i].blocks = by_columns;
  return all;
}

void decode_packing(benchmark::State& state, const Laid& laid) {
  const auto count = static_cast<std::size_t>(kNumbers / 64);
  const auto codes = random_bytes(static_cast<std::size_t>(kNumbers * laid.codes.bits / 8));
  const std::vector<float> scales(count, 0.5F), zeros(count, 3);
  io::Grouped::Plan plan{.name = laid.name,
                         .typical_rounding = 0,
                         .shape = {1, kRows, kCols},
                         .codes = laid.codes,
                         .grid = laid.grid,
                         .blocks = laid.blocks,
                         .scales = io::Grouped::plain(1)};
  if (laid.zeros) plan.zeros = io::Grouped::plain(2);
  const auto bytes_of = [](const auto& values) { return std::as_bytes(std::span(values)); };
  const std::vector<Numbers> parts = {Numbers(DType::u8, codes),
                                      Numbers(DType::f32, bytes_of(scales)),
                                      Numbers(DType::f32, bytes_of(zeros))};
  beside_memcpy(state, Numbers(std::make_shared<io::Grouped>(std::move(plan)), parts, kNumbers));
}

const bool registered = [] {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::packed) continue;
    benchmark::RegisterBenchmark(std::string(dtype_name(dtype)).c_str(), decode_type, dtype)
        ->Iterations(1);
  }
  for (const Laid& laid : packings()) {
    benchmark::RegisterBenchmark(laid.name, decode_packing, laid)->Iterations(1);
  }
  return true;
}();

}  // namespace
}  // namespace regauge
